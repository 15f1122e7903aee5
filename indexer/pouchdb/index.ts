// The way into pouchdb/: the entry `viewmill/pouchdb` of the package.

export { viewmill, type ViewmillPlugin, type ViewmillPluginOptions } from "./plugin.js";
export type { QueryRequestOptions, TemporaryView } from "./request.js";
