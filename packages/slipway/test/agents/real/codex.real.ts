import { suite } from "./RealAgentSuite.ts"

suite("codex")
