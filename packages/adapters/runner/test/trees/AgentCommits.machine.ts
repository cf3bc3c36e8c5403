import { agentCommits } from "./AgentCommits.ts"
import { inAMachine } from "./Kinds.ts"

agentCommits(inAMachine)
