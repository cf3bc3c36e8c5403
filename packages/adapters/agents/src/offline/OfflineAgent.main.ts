/**
 * The offline agent: an ACP v1 agent over standard input and output that executes the script in its prompt. It needs only Node, without
 * a model and network. This folder imports only types and `node:` modules, so that it starts fast and is all that a box must see. It
 * does not use the SDK's agent side, which would double the start time.
 */
import type {
  ContentBlock,
  InitializeResponse,
  NewSessionResponse,
  PermissionOption,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionConfigOption
} from "@agentclientprotocol/sdk"
import { homedir } from "node:os"
import { join, resolve } from "node:path"
import * as Command from "./Command.ts"
import * as Sessions from "./Sessions.ts"
import type { Repository } from "./Trees.ts"
import * as Turn from "./Turn.ts"

/** The JSON in `OFFLINE_AGENT`. Unset: the working directory is the only repository, and no approvals are asked for. */
interface Settings {
  /** In the sandbox's order. Folders are relative to the session's working directory. */
  readonly repositories: ReadonlyArray<Repository>
  readonly asks: boolean
}
const settings: Settings = JSON.parse(
  process.env["OFFLINE_AGENT"] ?? `{"repositories":[{"name":"","folder":"."}],"asks":false}`
)

const SESSIONS = join(homedir(), ".slipway-offline", "sessions")
const EFFORTS = ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]
const OPTIONS: Array<PermissionOption> = [
  { optionId: "once", kind: "allow_once", name: "Allow" },
  { optionId: "reject", kind: "reject_once", name: "Deny" }
]

class RpcError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}
const invalidParams = (message: string) => new RpcError(-32602, message)

const send = (message: object) => {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
}

/** Resolves requests to the client; `null`: the prompt was cancelled. */
const asked = new Map<number, (response: object | null) => void>()
let sequence = 0

interface Live {
  readonly session: Sessions.Session
  readonly cwd: string
  effort: string
  abort: AbortController | null
  /** Steering texts of the running prompt that were not taken yet. */
  steers: Array<{ readonly messageId: string; readonly text: string }>
  /** Wakes code that waits for steering texts. */
  told: () => void
}
const sessions = new Map<string, Live>()

const find = ({ sessionId }: { readonly sessionId?: unknown }): Live => {
  const live = sessions.get(String(sessionId))
  if (live === undefined) throw invalidParams("no such session")
  return live
}

const configOptions = ({ effort }: Live): Array<SessionConfigOption> => [
  {
    type: "select",
    id: "effort",
    name: "Effort",
    category: "thought_level",
    currentValue: effort,
    options: EFFORTS.map((value) => ({ value, name: value }))
  }
]

const begin = (session: Sessions.Session, cwd: unknown): Live => {
  const live: Live = { session, cwd: String(cwd), effort: "medium", abort: null, steers: [], told: () => {} }
  sessions.set(session.id, live)
  return live
}

const request = async <A extends object>(method: string, params: object, abort: AbortSignal): Promise<A | null> => {
  const id = sequence++
  const response = await new Promise<object | null>((answer) => {
    asked.set(id, answer)
    abort.addEventListener("abort", () => answer(null))
    send({ id, method, params })
  })
  asked.delete(id)
  return response as A | null
}

/** The answer to `_slipway/ask`: what was chosen and written for each question, or `null`. `why`: it may not be asked. */
interface Inquired {
  readonly answers: ReadonlyArray<ReadonlyArray<string>> | null
  readonly why?: string
}

const ask = async (
  sessionId: string,
  toolCall: RequestPermissionRequest["toolCall"],
  abort: AbortSignal
): Promise<Turn.Choice | null> => {
  const params: RequestPermissionRequest = { sessionId, toolCall, options: OPTIONS }
  const response = await request<RequestPermissionResponse>("session/request_permission", params, abort)
  const outcome = response?.outcome
  const option = outcome?.outcome === "selected" ? OPTIONS.find(({ optionId }) => optionId === outcome.optionId) : undefined
  const reason = response?._meta?.["slipway/reason"]
  return option === undefined ? null : { kind: option.kind, reason: typeof reason === "string" ? reason : null }
}

const prompt = async (live: Live, blocks: ReadonlyArray<ContentBlock>): Promise<PromptResponse> => {
  if (live.abort !== null) throw invalidParams("a prompt is running")
  const abort = (live.abort = new AbortController())
  const { id, prompts } = live.session
  const text = blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n")
  const images = blocks.flatMap((block) =>
    block.type === "image" ? [`${block.mimeType} of ${Buffer.from(block.data, "base64").length} bytes`] : []
  )
  const earlier = [...prompts]
  live.session.add(text)
  try {
    const stopReason = await Turn.run({
      prompt: text,
      images,
      earlier,
      repositories: settings.repositories.map(({ folder, name }) => ({ name, folder: resolve(live.cwd, folder) })),
      asks: settings.asks,
      abort: abort.signal,
      subAgents: [],
      client: {
        update: (update) => send({ method: "session/update", params: { sessionId: id, update } }),
        ask: async (toolCall) => {
          const choice = await ask(id, toolCall, abort.signal)
          // Without a choice the prompt is cancelled, although `session/cancel` comes only after this answer.
          if (choice === null) abort.abort()
          return choice
        },
        inquire: async (questions) => {
          const response = await request<Inquired>("_slipway/ask", { sessionId: id, questions }, abort.signal)
          return response?.why ?? response?.answers ?? null
        },
        take: () => {
          const steer = live.steers.shift()
          if (steer === undefined || abort.signal.aborted) return null
          live.session.add(steer.text)
          send({ method: "_slipway/steered", params: { sessionId: id, messageId: steer.messageId } })
          return steer.text
        },
        told: () =>
          new Promise((resolve) => {
            live.told = resolve
            abort.signal.addEventListener("abort", () => resolve())
            if (live.steers.length > 0 || abort.signal.aborted) resolve()
          })
      }
    })
    return { stopReason }
  } finally {
    live.abort = null
    // It was not taken, and never will be.
    live.steers = []
  }
}

/** The parameters that are read, of all methods together. */
interface Params {
  readonly cwd?: unknown
  readonly sessionId?: unknown
  readonly configId?: unknown
  readonly value?: unknown
  readonly prompt?: ReadonlyArray<ContentBlock>
  readonly messageId?: unknown
  readonly text?: unknown
}

const methods: Record<string, (params: Params) => unknown> = {
  initialize: (): InitializeResponse => ({
    protocolVersion: 1,
    agentCapabilities: { promptCapabilities: { image: true }, sessionCapabilities: { resume: {} } },
    agentInfo: { name: "slipway-offline", title: "Slipway offline agent", version: "1" },
    authMethods: []
  }),
  "session/new": ({ cwd }): NewSessionResponse => {
    const live = begin(Sessions.create(SESSIONS), cwd)
    return { sessionId: live.session.id, configOptions: configOptions(live) }
  },
  "session/resume": ({ cwd, sessionId }) => {
    const session = Sessions.resume(SESSIONS, String(sessionId))
    if (session === undefined) throw new RpcError(-32002, "there is no such session to resume")
    return { configOptions: configOptions(begin(session, cwd)) }
  },
  "session/set_config_option": (params) => {
    const live = find(params)
    const value = String(params.value)
    if (params.configId !== "effort" || !EFFORTS.includes(value)) throw invalidParams("no such option or value")
    live.effort = value
    return { configOptions: configOptions(live) }
  },
  "session/prompt": (params) => prompt(find(params), params.prompt ?? []),
  "session/cancel": (params) => find(params).abort?.abort(),
  "_slipway/steer": (params) => {
    const live = find(params)
    if (live.abort === null) return
    live.steers.push({ messageId: String(params.messageId), text: String(params.text) })
    live.told()
  }
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: Params
  readonly result?: object
}

const receive = async (message: Message) => {
  if (message.method === undefined) return asked.get(message.id ?? -1)?.(message.result ?? null)
  try {
    const method = methods[message.method]
    if (method === undefined) throw new RpcError(-32601, `method not found: ${message.method}`)
    const result = await method(message.params ?? {})
    if (message.id !== undefined) send({ id: message.id, result })
  } catch (error) {
    const { code, message: text } = error instanceof RpcError
      ? error
      : { code: -32603, message: error instanceof Error ? error.message : String(error) }
    if (message.id !== undefined) send({ id: message.id, error: { code, message: text } })
  }
}

/** The client is gone or asked us to end: kill all commands. */
const leave = () => {
  Command.killAll()
  process.exit(0)
}

let pending = ""
process.stdin.setEncoding("utf8")
process.stdin.on("data", (text: string) => {
  const lines = (pending + text).split("\n")
  pending = lines.pop() ?? ""
  for (const line of lines) {
    if (line.trim() !== "") void receive(JSON.parse(line))
  }
})
process.stdin.on("end", leave)
process.on("SIGTERM", leave)
// The reader of our output has closed the pipe, and no more input will come.
process.stdout.on("error", leave)
