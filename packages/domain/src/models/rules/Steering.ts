/**
 * Which agents take a text while they are at a turn (docs/decisions/18), and when they have it. codex: it shows the text as an item
 * of its turn, which it does right before the request to the model that has it; an answer it is at, it gives up for that. claude: it
 * says that it `started` the text, with the request that has it, after a tool call; one that comes later it runs right behind the
 * turn, which is the same turn here. The offline agent: after the directive it is at.
 */
import type { AgentRuntimeName } from "../schema/AgentRuntimeName.ts"
import type { Catalogue } from "../schema/ModelCatalogue.ts"

/** Profiles of runtimes whose protocol has it. The offline agent reports itself as `opencode`, which has not. */
const steerable: ReadonlySet<string> = new Set(["codex", "claude", "offline"])

/** Whether sessions of this runtime profile have `AgentSession.steer`. */
export const profileSteers = (profile: string): boolean => steerable.has(profile)

/** Which agent a sandbox has. */
interface WithAgent {
  readonly model: string
  readonly agentRuntime: AgentRuntimeName
}

/** A model that has left the catalogue is judged by its runtime's own profile. */
const profileOf = ({ models }: Catalogue, sandbox: WithAgent): string =>
  models.find(({ id }) => id === sandbox.model)?.profile ?? sandbox.agentRuntime

/** Whether the agent of a sandbox can be steered. */
export const canSteer = (catalogue: Catalogue, sandbox: WithAgent): boolean => profileSteers(profileOf(catalogue, sandbox))

/** Profiles of runtimes whose answer to a request for permission has room for a reason. */
const answerable: ReadonlySet<string> = new Set(["claude", "offline"])

/** How an agent is told why something was denied: with the denial; by steering the turn, which goes on; as the next message. */
export type DenialTelling = "answer" | "steer" | "message"

/** How sessions of this runtime profile are told. */
export const profileDenialTelling = (profile: string): DenialTelling =>
  answerable.has(profile) ? "answer" : profileSteers(profile) ? "steer" : "message"

/** How the agent of a sandbox is told why something was denied. */
export const denialTelling = (catalogue: Catalogue, sandbox: WithAgent): DenialTelling =>
  profileDenialTelling(profileOf(catalogue, sandbox))
