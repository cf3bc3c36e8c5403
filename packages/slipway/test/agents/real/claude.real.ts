import { suite } from "./RealAgentSuite.ts"

suite("claude")
