import { defineConfig } from "eslint/config";
import jest from "eslint-plugin-jest";
import tseslint from "typescript-eslint";

// Another folder is entered only through its index.js; tests may reach inner modules.
const throughIndexOnly = {
  regex: "^(\\.\\./)+(kernels|btree|protocol|viewserver|indexer)/(?!index\\.js$)",
  message: "Enter another folder through its index.js.",
};

export default defineConfig(
  {
    ignores: [
      "dist/",
      "node_modules/",
      "test/bench/rivals/",
      "test/fixtures/",
      "examples/",
      "coverage/",
      "scripts/",
      // Another language, which looks like TypeScript.
      "kernels/assembly/",
      "*.config.js",
    ],
  },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "no-console": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      // A member that is only taken out of the rest is named with an underscore.
      "@typescript-eslint/no-unused-vars": [
        "error",
        {
          ignoreRestSiblings: true,
          varsIgnorePattern: "^_",
          argsIgnorePattern: "^_",
          destructuredArrayIgnorePattern: "^_",
        },
      ],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-unnecessary-condition": [
        "error",
        { allowConstantLoopConditions: true },
      ],
      "no-restricted-imports": ["error", { patterns: [throughIndexOnly] }],
    },
  },
  {
    files: ["indexer/cli/**/*.ts", "**/main.ts", "test/bench/**/*.ts"],
    rules: { "no-console": "off" },
  },
  {
    files: ["test/**/*.ts"],
    extends: [jest.configs["flat/recommended"]],
    rules: {
      "no-restricted-imports": "off",
      "jest/expect-expect": "off",
      "jest/no-conditional-expect": "off",
      "jest/no-standalone-expect": "off",
    },
  },
);
