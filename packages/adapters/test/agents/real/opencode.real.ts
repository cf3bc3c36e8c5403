import { suite } from "./RealAgentSuite.ts"

suite("opencode")
