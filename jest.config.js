export default {
  rootDir: "dist",
  roots: ["<rootDir>/test"],
  testMatch: ["**/*.test.js"],
  testEnvironment: "node",
  transform: {},
  injectGlobals: false,
  testTimeout: 60000,
  maxWorkers: 2,
};
