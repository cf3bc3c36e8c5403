/** An editor: a client of the Agent Client Protocol over a process of `slipway acp`, with all frames of both sides. */
import * as acp from "@agentclientprotocol/sdk"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { command } from "../SlipwayProcess.ts"

/** A frame as it was on the wire. */
export interface Frame {
  readonly from: "editor" | "agent"
  readonly message: Readonly<Record<string, unknown>>
}

type Permission = (request: acp.RequestPermissionRequest, signal: AbortSignal) => Promise<acp.RequestPermissionOutcome>
type Form = (request: acp.CreateElicitationRequest, signal: AbortSignal) => Promise<acp.CreateElicitationResponse>

export interface Options {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly args?: ReadonlyArray<string>
  readonly capabilities?: acp.ClientCapabilities
  readonly onPermission?: Permission
  readonly onForm?: Form
}

/** A choice that is never made: the request ends when the agent takes it back. */
export const undecided: Permission = (_, signal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "cancelled" })))

export const choosing = (optionId: string): Permission => () => Promise.resolve({ outcome: "selected", optionId })

export class EditorProcess {
  readonly frames: Array<Frame> = []
  readonly updates: Array<acp.SessionNotification> = []
  readonly permissions: Array<acp.RequestPermissionRequest> = []
  readonly forms: Array<acp.CreateElicitationRequest> = []
  /** Lines of standard output that are no frames of the protocol. */
  readonly strange: Array<string> = []
  /** Requests that the agent has taken back. */
  takenBack = 0
  readonly program: SpawnedProgram.SpawnedProgram
  readonly agent: acp.ClientContext
  #lookers: Array<() => void> = []

  constructor({ args = [], cwd, env, onForm, onPermission = undecided }: Options) {
    this.program = SpawnedProgram.start(process.execPath, [command, "acp", ...args], { cwd, env })
    const { child } = this.program
    let rest = ""
    const readable = new ReadableStream<acp.AnyMessage>({
      start: (controller) => {
        child.stdout.on("data", (text: string) => {
          const lines = `${rest}${text}`.split("\n")
          rest = lines.pop() ?? ""
          for (const line of lines) {
            const message = this.#message(line)
            if (message === null) continue
            this.#saw({ from: "agent", message })
            controller.enqueue(message as unknown as acp.AnyMessage)
          }
        })
        child.stdout.once("end", () => controller.close())
      }
    })
    const writable = new WritableStream<acp.AnyMessage>({
      write: (message) => {
        this.#saw({ from: "editor", message: { ...message } })
        return new Promise((resolve) => child.stdin.write(`${JSON.stringify(message)}\n`, () => resolve()))
      }
    })
    this.agent = this.#app(onPermission, onForm).connect({ readable, writable }).agent
  }

  #app(onPermission: Permission, onForm: Form | undefined) {
    const { client } = acp.methods
    const seen = (signal: AbortSignal) => signal.addEventListener("abort", () => this.#changed(() => this.takenBack++))
    return acp.client({ name: "editor" })
      .onNotification(client.session.update, ({ params }) => this.#changed(() => this.updates.push(params)))
      .onRequest(client.session.requestPermission, async ({ params, signal }) => {
        seen(signal)
        this.#changed(() => this.permissions.push(params))
        return { outcome: await onPermission(params, signal) }
      })
      .onRequest(client.elicitation.create, async ({ params, signal }) => {
        seen(signal)
        this.#changed(() => this.forms.push(params))
        if (onForm === undefined) throw acp.RequestError.methodNotFound(client.elicitation.create)
        return await onForm(params, signal)
      })
  }

  #message(line: string): Frame["message"] | null {
    try {
      const message: Frame["message"] = JSON.parse(line)
      if (message["jsonrpc"] === "2.0") return message
    } catch {
      // Reported below.
    }
    this.strange.push(line)
    return null
  }

  #changed(change: () => void) {
    change()
    for (const look of this.#lookers) look()
  }

  #saw(frame: Frame) {
    this.#changed(() => this.frames.push(frame))
  }

  /** Fulfils once `found` gives a value. The test's own time limit is the bound. */
  sees<A>(found: () => A | false | undefined): Promise<A> {
    return new Promise((resolve) => {
      const look = () => {
        const value = found()
        if (value === false || value === undefined) return
        this.#lookers = this.#lookers.filter((one) => one !== look)
        resolve(value)
      }
      this.#lookers.push(look)
      look()
    })
  }

  initialize(clientCapabilities: acp.ClientCapabilities = {}): Promise<acp.InitializeResponse> {
    return this.agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities })
  }

  /** A new session, once the editor has its commands. */
  async open(cwd: string): Promise<string> {
    const { sessionId } = await this.agent.request(acp.methods.agent.session.new, { cwd, mcpServers: [] })
    await this.sees(() => this.of("available_commands_update", sessionId).length > 0)
    return sessionId
  }

  prompt(sessionId: string, prompt: string | Array<acp.ContentBlock>): Promise<acp.PromptResponse> {
    const blocks: Array<acp.ContentBlock> = typeof prompt === "string" ? [{ type: "text", text: prompt }] : prompt
    return this.agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: blocks })
  }

  /** The error that a request gets. */
  async refusal(request: Promise<unknown>): Promise<{ readonly code: number; readonly message: string }> {
    const outcome = await request.then(() => null, (error: unknown) => error)
    if (outcome instanceof acp.RequestError) return { code: outcome.code, message: outcome.message }
    throw new Error(`no refusal: ${String(outcome)}`)
  }

  /** The updates of one kind, in order. */
  of<K extends acp.SessionUpdate["sessionUpdate"]>(kind: K, sessionId?: string) {
    return this.updates.flatMap(({ sessionId: id, update }) =>
      (sessionId === undefined || id === sessionId) && update.sessionUpdate === kind
        ? [update as Extract<acp.SessionUpdate, { sessionUpdate: K }>]
        : []
    )
  }

  /** The texts of one kind, joined. */
  text(kind: "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk", sessionId?: string): string {
    return this.of(kind, sessionId).map(({ content }) => content.type === "text" ? content.text : "").join("")
  }
}

/** Killed with the scope. `capabilities`: of the editor. */
export const editor = (options: Options) =>
  Effect.tap(
    Effect.acquireRelease(Effect.sync(() => new EditorProcess(options)), ({ program }) => Effect.promise(() => program.kill())),
    (started) => Effect.promise(() => started.initialize(options.capabilities))
  )
