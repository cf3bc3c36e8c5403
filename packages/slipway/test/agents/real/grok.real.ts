import { suite } from "./RealAgentSuite.ts"

suite("grok")
