/** The agent of the Agent Client Protocol: its requests, over sessions that are sandboxes of one server. */
import * as acp from "@agentclientprotocol/sdk"
import type { RepoRef, Sandbox, SandboxPage, SandboxQuery } from "@slipway/client"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import path from "node:path"
import manifest from "../../../package.json" with { type: "json" }
import { repositoryIn } from "../client/Checkout.ts"
import * as Server from "../client/server/Server.ts"
import * as ModelReport from "../setup/ModelReport.ts"
import { line } from "../terminal/EventText.ts"
import * as AcpErrors from "./AcpErrors.ts"
import { AcpSession, type Choices, SESSION_KEY } from "./AcpSession.ts"
import * as Editor from "./Editor.ts"
import * as SessionOptions from "./SessionOptions.ts"
import * as SlashCommands from "./SlashCommands.ts"

/** Options of the command. */
export interface Options extends Choices {
  readonly url: Option.Option<string>
  /** Absent: the repository of the editor's folder. */
  readonly repos: ReadonlyArray<RepoRef>
  /** The ref of the first repository. */
  readonly ref?: string
}

/** Sessions that are open at once. Each holds a stream. */
const MAX_SESSIONS = 100
/** Sandboxes of one page of the editor's list. */
const PAGE = 50
/** Pages of 100 sandboxes that are searched for a session. A longer search would use up the key's rate limit. */
const MAX_PAGES = 10

const SIGN_IN = "slipway-sign-in"
const SANDBOX_ID = /^c_[a-z2-9]{12}$/u

/** The id of the editor's session of a sandbox: the one under which it was created, else the sandbox's own. */
const sessionIdOf = ({ id, metadata }: Sandbox): string => metadata[SESSION_KEY] ?? id

export class AcpAgent {
  readonly #options: Options
  readonly #editor: Editor.Editor
  readonly #sessions = new Map<string, AcpSession>()

  constructor(options: Options, editor: Editor.Editor) {
    this.#options = options
    this.#editor = editor
  }

  /** The server with its key, which is checked. */
  async connect(): Promise<Server.Server> {
    const server = await Effect.runPromise(Server.connect(this.#options.url))
    await Effect.runPromise(server.call((signal) => server.client.listSandboxes({ limit: 1 }, { signal })))
    return server
  }

  #session(id: string): AcpSession {
    const session = this.#sessions.get(id)
    if (session === undefined) throw AcpErrors.notFound("This session is not open. Load it, or start a new one.")
    return session
  }

  /** The repositories for the editor's folder. */
  async #reposFor(cwd: string): Promise<ReadonlyArray<RepoRef>> {
    if (!path.isAbsolute(cwd)) throw AcpErrors.invalid("cwd is not an absolute path.")
    const { ref, repos } = this.#options
    const [first, ...others] = repos
    const fullName = first === undefined ? await repositoryIn(cwd) : first.fullName
    if (fullName === null) {
      throw AcpErrors.invalid(
        `${line(cwd)} is no checkout with a remote origin of owner/name. Name the repository: slipway acp --repo owner/name`
      )
    }
    return [{ ...first, fullName, ...(ref === undefined ? {} : { ref }) }, ...others]
  }

  #open(session: AcpSession): void {
    if (this.#sessions.size >= MAX_SESSIONS) throw AcpErrors.failed(`${MAX_SESSIONS} sessions are open. Close one.`)
    this.#sessions.set(session.id, session)
    // Behind the reply, which tells the editor of the session.
    setImmediate(() => {
      const availableCommands = SlashCommands.available
      Editor.update(this.#editor, session.id, { sessionUpdate: "available_commands_update", availableCommands })
        .catch((error: unknown) => this.#editor.log(`the editor is gone: ${String(error)}`))
    })
  }

  async create({ cwd }: acp.NewSessionRequest): Promise<acp.NewSessionResponse> {
    const server = await this.connect()
    const repos = await this.#reposFor(cwd)
    const { approvals, model } = this.#options
    const choices = { ...(approvals === undefined ? {} : { approvals }), ...(model === undefined ? {} : { model }) }
    const session = new AcpSession(`acp_${randomUUID()}`, { cwd, repos }, server, this.#editor, choices)
    session.models = await this.#models(server)
    this.#open(session)
    return { sessionId: session.id, configOptions: SessionOptions.of(session) }
  }

  /** The usable models. Empty: the key may not list them, so the editor offers no choice. */
  async #models(server: Server.Server): Promise<ReadonlyArray<string>> {
    try {
      const { models } = await Effect.runPromise(ModelReport.ask(server.url))
      return models.flatMap(({ id, problems }) => problems.length === 0 ? [id] : [])
    } catch (error) {
      this.#editor.log(`the models are not listed: ${AcpErrors.errorOf(error, this.#editor.log).message}`)
      return []
    }
  }

  /** The sandbox of a session, of any client. */
  async #find(server: Server.Server, id: string): Promise<Sandbox> {
    const { call, client } = server
    if (SANDBOX_ID.test(id)) return await Effect.runPromise(call((signal) => client.getSandbox(id, { signal })))
    let after: string | null = null
    for (let page = 0; page < MAX_PAGES; page++) {
      const query: SandboxQuery = after === null ? {} : { after }
      const { data, nextCursor }: SandboxPage = await Effect.runPromise(call((signal) => client.listSandboxes(query, { signal })))
      const found = data.find((one) => one.metadata[SESSION_KEY] === id)
      if (found !== undefined) return found
      after = nextCursor
      if (after === null) break
    }
    throw AcpErrors.notFound(
      `No sandbox at ${server.url} belongs to this session. A session without a prompt is not kept: start a new one.`
    )
  }

  async attach({ cwd, sessionId }: acp.LoadSessionRequest | acp.ResumeSessionRequest, isShown: boolean): Promise<acp.LoadSessionResponse> {
    if (!path.isAbsolute(cwd)) throw AcpErrors.invalid("cwd is not an absolute path.")
    const server = await this.connect()
    const sandbox = await this.#find(server, sessionId)
    this.#sessions.get(sessionId)?.close()
    this.#sessions.delete(sessionId)
    const session = new AcpSession(sessionId, { cwd, repos: sandbox.repos }, server, this.#editor, {})
    this.#open(session)
    try {
      await session.attach(sandbox, isShown)
    } catch (error) {
      this.#sessions.delete(sessionId)
      session.close()
      throw error
    }
    return { configOptions: SessionOptions.of(session) }
  }

  async list({ cursor, cwd }: acp.ListSessionsRequest): Promise<acp.ListSessionsResponse> {
    const server = await this.connect()
    const folder = cwd ?? process.cwd()
    const repo = cwd === null || cwd === undefined ? null : this.#options.repos[0]?.fullName ?? await repositoryIn(cwd)
    const query = { limit: PAGE, ...(repo === null ? {} : { repo }), ...(cursor === null || cursor === undefined ? {} : { after: cursor }) }
    const { data, nextCursor } = await Effect.runPromise(server.call((signal) => server.client.listSandboxes(query, { signal })))
    const sessions = data.map((one) => ({
      sessionId: sessionIdOf(one),
      cwd: folder,
      title: line(one.title),
      updatedAt: one.completedAt ?? one.startedAt ?? one.createdAt
    }))
    return { sessions, nextCursor }
  }

  async prompt({ prompt, sessionId }: acp.PromptRequest): Promise<acp.PromptResponse> {
    const session = this.#session(sessionId)
    const [first] = prompt
    const command = prompt.length === 1 && first?.type === "text" ? SlashCommands.commandIn(first.text) : null
    if (command === null) {
      const isNew = session.sandbox === null
      try {
        return await session.prompt(prompt)
      } finally {
        // The choices of a sandbox are fixed.
        if (isNew && session.sandbox !== null) {
          await Editor.update(this.#editor, sessionId, { sessionUpdate: "config_option_update", configOptions: SessionOptions.of(session) })
        }
      }
    }
    const text = await SlashCommands.run(session, command)
    await Editor.update(this.#editor, sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } })
    return { stopReason: "end_turn" }
  }

  async cancel(sessionId: string): Promise<void> {
    try {
      await this.#sessions.get(sessionId)?.cancel()
    } catch (error) {
      this.#editor.log(`the turn is not interrupted: ${AcpErrors.errorOf(error, this.#editor.log).message}`)
    }
  }

  configure(request: acp.SetSessionConfigOptionRequest): acp.SetSessionConfigOptionResponse {
    const session = this.#session(request.sessionId)
    SessionOptions.set(session, request.configId, request.value)
    return { configOptions: SessionOptions.of(session) }
  }

  close(sessionId: string): void {
    this.#session(sessionId).close()
    this.#sessions.delete(sessionId)
  }

  closeAll(): void {
    for (const session of this.#sessions.values()) session.close()
    this.#sessions.clear()
  }
}

const hasMark = (meta: object | null | undefined, name: string): boolean =>
  meta !== null && meta !== undefined && Object.hasOwn(meta, name) && Reflect.get(meta, name) === true

/** The sign-in. Editors with a terminal run it there; others show the command. */
const signInMethods = (url: string, { _meta, auth }: acp.ClientCapabilities): Array<acp.AuthMethod> => {
  const about = { id: SIGN_IN, name: "Sign in to Slipway", description: `Run in a terminal: slipway auth login --url ${url}` }
  const command = { command: process.execPath, args: [process.argv[1] ?? "", "auth", "login", "--url", url], label: about.name }
  // An editor that knows the terminal by an earlier agreement says so in its metadata.
  const marked = hasMark(_meta, "terminal-auth") ? { ...about, _meta: { "terminal-auth": command } } : about
  return [auth?.terminal === true ? { type: "terminal", ...marked, args: ["--sign-in"] } : marked]
}

/** The requests of the protocol. `log`: for standard error. */
export const make = (options: Options, url: string, log: (text: string) => void) => {
  let capabilities: acp.ClientCapabilities = {}
  let agent: AcpAgent | null = null
  const ready = (client: acp.AgentContext): AcpAgent => agent ??= new AcpAgent(options, { client, capabilities, log })
  /** Failures as errors of the protocol. */
  const answer =
    <P, A>(work: (agent: AcpAgent, params: P) => A | Promise<A>) =>
    async ({ client, params }: { readonly client: acp.AgentContext; readonly params: P }): Promise<A> => {
      try {
        return await work(ready(client), params)
      } catch (error) {
        throw AcpErrors.errorOf(error, log)
      }
    }
  const { agent: methods } = acp.methods
  const app = acp.agent({ name: "slipway" })
    .onRequest(methods.initialize, ({ params }) => {
      capabilities = params.clientCapabilities ?? {}
      return {
        protocolVersion: acp.PROTOCOL_VERSION,
        agentInfo: { name: "slipway", title: "Slipway", version: manifest.version },
        agentCapabilities: {
          loadSession: true,
          promptCapabilities: { image: true, embeddedContext: true },
          sessionCapabilities: { list: {}, resume: {}, close: {} }
        },
        authMethods: signInMethods(url, capabilities)
      }
    })
    .onRequest(
      methods.authenticate,
      answer(async (agent, { methodId }) => {
        if (methodId !== SIGN_IN) throw AcpErrors.invalid("There is no such way to sign in.")
        await agent.connect()
        return {}
      })
    )
    .onRequest(methods.session.new, answer((agent, params) => agent.create(params)))
    .onRequest(methods.session.load, answer((agent, params) => agent.attach(params, true)))
    .onRequest(methods.session.resume, answer((agent, params) => agent.attach(params, false)))
    .onRequest(methods.session.list, answer((agent, params) => agent.list(params)))
    .onRequest(methods.session.prompt, answer((agent, params) => agent.prompt(params)))
    .onRequest(methods.session.setConfigOption, answer((agent, params) => agent.configure(params)))
    .onRequest(
      methods.session.close,
      answer((agent, { sessionId }) => {
        agent.close(sessionId)
        return {}
      })
    )
    .onNotification(methods.session.cancel, ({ client, params }) => ready(client).cancel(params.sessionId))
  return { app, close: () => agent?.closeAll() }
}
