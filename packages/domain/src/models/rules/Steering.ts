/**
 * Which agents accept a message during a turn (docs/decisions/18), and when they read it.
 * - codex shows the message as an item of its turn, right before the request to the model that contains it. It aborts the answer that
 *   is being generated.
 * - claude reports that it `started` the message, with the request that contains it, after a tool call. A later message runs right
 *   after the turn, which counts as the same turn here.
 * - The offline agent reads it after the current directive.
 */
import type { AgentRuntimeName } from "../schema/AgentRuntimeName.ts"
import type { Catalogue } from "../schema/ModelCatalogue.ts"

/** Runtime profiles whose protocol supports steering. The offline agent reports itself as `opencode`, which does not support it. */
const steerable: ReadonlySet<string> = new Set(["codex", "claude", "offline"])

/** Whether sessions of this runtime profile have `AgentSession.steer`. */
export const profileSteers = (profile: string): boolean => steerable.has(profile)

/** The model and runtime of a sandbox. */
interface WithAgent {
  readonly model: string
  readonly agentRuntime: AgentRuntimeName
}

/** A model that is no longer in the catalogue counts by its runtime's own profile. */
const profileOf = ({ models }: Catalogue, sandbox: WithAgent): string =>
  models.find(({ id }) => id === sandbox.model)?.profile ?? sandbox.agentRuntime

/** Whether the agent of a sandbox can be steered. */
export const canSteer = (catalogue: Catalogue, sandbox: WithAgent): boolean => profileSteers(profileOf(catalogue, sandbox))

/** Runtime profiles whose answer to a permission request can hold a reason. */
const answerable: ReadonlySet<string> = new Set(["claude", "offline"])

/** The way to give an agent the reason of a denial: in the answer, by steering the running turn, or as the next message. */
export type DenialTelling = "answer" | "steer" | "message"

/** The way for sessions of this runtime profile. */
export const profileDenialTelling = (profile: string): DenialTelling =>
  answerable.has(profile) ? "answer" : profileSteers(profile) ? "steer" : "message"

/** The way for the agent of a sandbox. */
export const denialTelling = (catalogue: Catalogue, sandbox: WithAgent): DenialTelling =>
  profileDenialTelling(profileOf(catalogue, sandbox))
