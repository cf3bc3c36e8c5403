/** The options of a session in the editor: the model and the approvals. They are fixed once the sandbox exists. */
import type { SessionConfigOption } from "@agentclientprotocol/sdk"
import { invalid } from "./AcpErrors.ts"
import type { AcpSession } from "./AcpSession.ts"

const [MODEL, APPROVALS] = ["model", "approvals"] as const
/** The value that leaves the choice to the server. */
const DEFAULT = "default"

const APPROVAL_MODES = [
  { value: "auto", name: "Never ask", description: "The agent works without approvals in its sandbox" },
  { value: "prompt", name: "Ask first", description: "The agent asks before each edit and command" }
]

type About = Pick<AcpSession, "choices" | "models" | "sandbox">

/** An option has all values before the sandbox exists, and then the chosen one alone. */
export const of = ({ choices, models, sandbox }: About): Array<SessionConfigOption> => {
  const model = sandbox === null ? choices.model ?? DEFAULT : sandbox.model ?? DEFAULT
  const names = sandbox === null ? [...new Set([DEFAULT, ...models, model])] : [model]
  const approvals = choices.approvals ?? "auto"
  const found: Array<SessionConfigOption> = [{
    id: MODEL,
    name: "Model",
    category: "model",
    type: "select",
    currentValue: model,
    options: names.map((value) => ({ value, name: value === DEFAULT ? "Default of the server" : value }))
  }]
  // The server does not tell the approvals of a sandbox of another client.
  if (sandbox !== null && choices.approvals === undefined) return found
  const options = sandbox === null ? APPROVAL_MODES : APPROVAL_MODES.filter(({ value }) => value === approvals)
  return [...found, { id: APPROVALS, name: "Approvals", category: "mode", type: "select", currentValue: approvals, options }]
}

/** Throws what to do if the option or its value cannot be set. */
export const set = (session: AcpSession, id: string, value: string | boolean): void => {
  if (session.sandbox !== null) throw invalid("Model and approvals of a sandbox are fixed. Start a new session for others.")
  const { model: _, ...others } = session.choices
  if (
    id === MODEL && typeof value === "string" && (value === DEFAULT || session.models.includes(value) || value === session.choices.model)
  ) {
    session.choices = value === DEFAULT ? others : { ...others, model: value }
  } else if (id === APPROVALS && (value === "auto" || value === "prompt")) {
    session.choices = { ...session.choices, approvals: value }
  } else {
    throw invalid("There is no such option, or it does not have this value.")
  }
}
