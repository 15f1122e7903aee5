// Never answers a document with `hang`, and reads no more.

import { hang, serve } from "./line-server.js";

serve(({ document }) => (document["hang"] === true ? hang() : undefined));
