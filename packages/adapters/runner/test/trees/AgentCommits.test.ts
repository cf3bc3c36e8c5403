import { agentCommits } from "./AgentCommits.ts"
import { onThisMachine } from "./Kinds.ts"

agentCommits(onThisMachine)
