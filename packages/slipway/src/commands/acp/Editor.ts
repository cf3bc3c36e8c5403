/** The editor at the other end: what it can show, and how it is asked. */
import type {
  AgentContext,
  ClientCapabilities,
  CreateElicitationRequest,
  CreateElicitationResponse,
  RequestPermissionRequest,
  SessionUpdate
} from "@agentclientprotocol/sdk"
import { methods, RequestError } from "@agentclientprotocol/sdk"

/** Code of JSON-RPC for a request that its sender has taken back. */
const CANCELLED = -32_800

/** Requests and updates that go to the editor. */
export interface Editor {
  readonly client: AgentContext
  readonly capabilities: ClientCapabilities
  /** For a person who looks for the cause of a failure; goes to standard error. */
  readonly log: (text: string) => void
}

export const showsForms = ({ capabilities }: Editor): boolean => (capabilities.elicitation?.form ?? null) !== null

export const update = ({ client }: Editor, sessionId: string, update: SessionUpdate): Promise<void> =>
  client.notify(methods.client.session.update, { sessionId, update })

/** `null`: the request was taken back by `signal`, or the editor did not show it. */
const answered = async <A>({ log }: Editor, signal: AbortSignal, request: Promise<A>): Promise<A | null> => {
  try {
    return await request
  } catch (error) {
    if (!signal.aborted && !(error instanceof RequestError && error.code === CANCELLED)) {
      log(`the editor did not answer: ${error instanceof Error ? error.message : String(error)}`)
    }
    return null
  }
}

/** The chosen option. `null`: no choice was made. */
export const choose = async (editor: Editor, request: RequestPermissionRequest, signal: AbortSignal): Promise<string | null> => {
  const options = { cancellationSignal: signal, stopWaitingOnCancel: true }
  const reply = await answered(editor, signal, editor.client.request(methods.client.session.requestPermission, request, options))
  return reply === null || reply.outcome.outcome !== "selected" ? null : reply.outcome.optionId
}

/** The form as it was closed. `null`: no person closed it. */
export const fill = async (
  editor: Editor,
  request: CreateElicitationRequest,
  signal: AbortSignal
): Promise<{ readonly action: "accept" | "decline"; readonly content: Readonly<Record<string, unknown>> } | null> => {
  const options = { cancellationSignal: signal, stopWaitingOnCancel: true }
  const reply: CreateElicitationResponse | null = await answered(
    editor,
    signal,
    editor.client.request(methods.client.elicitation.create, request, options)
  )
  if (reply === null || reply.action !== "accept" && reply.action !== "decline") return null
  const content = "content" in reply && typeof reply.content === "object" && reply.content !== null ? reply.content : {}
  return { action: reply.action, content: { ...content } }
}
