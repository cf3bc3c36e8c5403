/**
 * One session of an editor: a sandbox of the server. The sandbox is created with the first prompt. From then on its log is followed, so
 * that the editor also shows what other clients do.
 */
import type { ContentBlock, PromptResponse, SessionUpdate, StopReason } from "@agentclientprotocol/sdk"
import type { ApprovalRequest, NewSandbox, QuestionRequest, Sandbox, StreamEvent } from "@slipway/client"
import { labels } from "@slipway/pages/shared/SandboxLabels"
import * as Effect from "effect/Effect"
import { CommandFailed, pageOf, type Server } from "../client/server/Server.ts"
import { line, rejection } from "../terminal/EventText.ts"
import { shellWord } from "../terminal/Output.ts"
import * as AcpErrors from "./AcpErrors.ts"
import * as Editor from "./Editor.ts"
import * as Inquiries from "./Inquiries.ts"
import { contentOf, type NewFile } from "./PromptContent.ts"
import { note, SessionUpdates } from "./SessionUpdates.ts"
import * as ToolCalls from "./ToolCalls.ts"

/** How a turn ended. */
type TurnEnd = Extract<StreamEvent, { type: "turn.completed" }>["data"]

/** A prompt of the editor whose turn has not ended. */
interface Prompt {
  readonly done: (end: TurnEnd) => void
  readonly fail: (error: unknown) => void
  /** The editor has cancelled it. A sandbox that boots refuses an interrupt, so it is sent again when the turn starts. */
  isCancelled: boolean
}

/** The choices for a sandbox that is not yet created. Absent: the server's. */
export interface Choices {
  readonly model?: string
  readonly approvals?: "auto" | "prompt"
}

/** The metadata of a sandbox that names the editor's session. */
export const SESSION_KEY = "acp_session"

/** Ended turns that are remembered for a prompt whose reply comes later. */
const MAX_ENDED = 100

export class AcpSession {
  readonly id: string
  readonly place: ToolCalls.Place
  readonly server: Server
  choices: Choices
  /** Models that the editor may choose. */
  models: ReadonlyArray<string> = []
  readonly #editor: Editor.Editor
  readonly #updates: SessionUpdates
  readonly #closed = new AbortController()
  #sandbox: Sandbox | null = null
  /** The end of the last request that sends a prompt: events wait for it, because its reply names the turn. */
  #sending: Promise<unknown> = Promise.resolve()
  #isFollowing = false
  #cursor = "0"
  /** Whether events until now are not shown, because the editor has shown them before. */
  #isQuiet = false
  readonly #caughtUp = Promise.withResolvers<void>()
  #isLive = false
  /** Prompts by their turn. The first turn of a new sandbox has no id yet. */
  readonly #prompts = new Map<string, Prompt>()
  #first: Prompt | null = null
  readonly #own = new Set<string>()
  readonly #queued = new Set<string>()
  readonly #ended = new Map<string, TurnEnd>()
  #finish: string | undefined
  readonly #approvals = new Map<string, { readonly request: ApprovalRequest; readonly asking: AbortController | null }>()
  readonly #questions = new Map<string, { readonly request: QuestionRequest; readonly asking: AbortController | null }>()
  /** Prompts whose turn has not ended, with those that are being sent. */
  readonly #open = new Set<Prompt>()

  constructor(id: string, place: ToolCalls.Place, server: Server, editor: Editor.Editor, choices: Choices) {
    this.id = id
    this.place = place
    this.server = server
    this.choices = choices
    this.#editor = editor
    this.#updates = new SessionUpdates(place)
  }

  get sandbox(): Sandbox | null {
    return this.#sandbox
  }

  call<A>(request: (signal: AbortSignal) => Promise<A>): Promise<A> {
    return Effect.runPromise(this.server.call(request))
  }

  say(text: string): Promise<void> {
    return this.#show(note(text))
  }

  async #show(update: SessionUpdate): Promise<void> {
    await Editor.update(this.#editor, this.id, update)
  }

  // Prompts ---------------------------------------------------------------------------------------------------------

  /** Sends the prompt and waits for the end of its turn. */
  async prompt(blocks: ReadonlyArray<ContentBlock>): Promise<PromptResponse> {
    const { files, prompt } = contentOf(blocks, this.place.cwd)
    const end = Promise.withResolvers<TurnEnd>()
    // The turn may fail while its prompt is still being sent.
    end.promise.catch(() => undefined)
    const waiting: Prompt = { done: end.resolve, fail: end.reject, isCancelled: false }
    this.#open.add(waiting)
    const sending = this.#send(prompt, files, waiting)
    this.#sending = sending.catch(() => undefined)
    const { reason, state } = await sending.then(async () => {
      if (waiting.isCancelled) await this.#interrupt()
      return await end.promise
    }).finally(() => this.#open.delete(waiting))
    if (state === "failed") throw AcpErrors.failed(this.#failure(reason))
    return { stopReason: state === "succeeded" ? this.#stopReason() : "cancelled" }
  }

  #stopReason(): StopReason {
    return this.#finish === "refusal" || this.#finish === "max_tokens" ? this.#finish : "end_turn"
  }

  #failure(reason: string | undefined): string {
    const why = reason === undefined ? "" : ` ${labels.turnReason[reason] ?? line(reason)}`
    const page = this.#sandbox === null ? "" : ` See ${pageOf(this.server, this.#sandbox.id)}`
    return `The turn failed.${why} Send another message to go on.${page}`
  }

  async #send(prompt: string, files: ReadonlyArray<NewFile>, waiting: Prompt): Promise<void> {
    const uploaded = await this.#upload(files)
    const sandbox = this.#sandbox
    if (sandbox === null) return await this.#create(prompt, uploaded, waiting)
    const { client } = this.server
    const sent = await this.call((signal) =>
      client.sendMessage(sandbox.id, prompt, { whenBusy: "queue", signal, ...(uploaded.length === 0 ? {} : { files: uploaded }) })
    )
    if (sent.outcome === "rejected") {
      throw AcpErrors.failed(
        sent.rejection === "sandbox_terminal"
          ? `The sandbox ${sandbox.id} has ended. Start a new session; its changes stay on ${pageOf(this.server, sandbox.id)}`
          : rejection(sent.rejection)
      )
    }
    this.#own.add(sent.turnId)
    const ended = this.#ended.get(sent.turnId)
    if (ended === undefined) this.#prompts.set(sent.turnId, waiting)
    else waiting.done(ended)
    this.#follow()
  }

  async #upload(files: ReadonlyArray<NewFile>): Promise<ReadonlyArray<{ readonly id: string }>> {
    const uploaded: Array<{ readonly id: string }> = []
    const { client, transfer } = this.server
    for (const { bytes, mediaType, name } of files) {
      const { id } = await Effect.runPromise(transfer((signal) => client.uploadFile(bytes, { name, mediaType, signal })))
      uploaded.push({ id })
    }
    return uploaded
  }

  async #create(prompt: string, files: ReadonlyArray<{ readonly id: string }>, waiting: Prompt): Promise<void> {
    if (this.#first !== null) throw AcpErrors.failed("The sandbox of this session is being created. Wait for its first answer.")
    this.#first = waiting
    const { approvals, model } = this.choices
    const request: NewSandbox = {
      repos: this.place.repos,
      prompt,
      metadata: { [SESSION_KEY]: this.id },
      ...(files.length === 0 ? {} : { files }),
      ...(model === undefined ? {} : { model }),
      ...(approvals === undefined ? {} : { toolApprovalMode: approvals })
    }
    try {
      this.#sandbox = await this.call((signal) => this.server.client.createSandbox(request, { signal }))
    } catch (error) {
      this.#first = null
      throw error
    }
    const [first] = this.place.repos
    const at = first?.ref === undefined ? "its default branch" : line(first.ref)
    await this.say(
      `The sandbox ${this.#sandbox.id} starts from ${line(first?.fullName ?? "")} at ${at}. ` +
        `Uncommitted and unpushed changes of this folder are not in it. Page: ${pageOf(this.server, this.#sandbox.id)}`
    )
    await this.#show({ sessionUpdate: "session_info_update", title: line(this.#sandbox.title), updatedAt: this.#sandbox.createdAt })
    this.#follow()
  }

  /** Ends the turn of each prompt of the editor, and withdraws those that wait. The sandbox goes on. */
  async cancel(): Promise<void> {
    for (const prompt of this.#open) prompt.isCancelled = true
    if (this.#sandbox !== null && this.#prompts.size + Number(this.#first !== null) > 0) await this.#interrupt()
  }

  async #interrupt(): Promise<void> {
    const sandbox = this.#sandbox
    if (sandbox === null) return
    const { client } = this.server
    const queued = [...this.#prompts.keys()].filter((turn) => this.#queued.has(turn))
    for (const turn of queued) await this.call((signal) => client.cancelMessage(sandbox.id, turn, { signal }))
    if (queued.length < this.#prompts.size + Number(this.#first !== null)) {
      await this.call((signal) => client.interruptTurn(sandbox.id, { signal }))
    }
  }

  // Following -------------------------------------------------------------------------------------------------------

  /**
   * Follows a sandbox that exists. `isShown`: its log so far becomes updates; returns when the log has been read. Fails if the log cannot
   * be read.
   */
  async attach(sandbox: Sandbox, isShown: boolean): Promise<void> {
    this.#sandbox = sandbox
    this.#isQuiet = !isShown
    await this.#show({ sessionUpdate: "session_info_update", title: line(sandbox.title), updatedAt: sandbox.createdAt })
    this.#follow()
    await this.#caughtUp.promise
  }

  /** Ends the updates. The sandbox goes on. */
  close(): void {
    this.#closed.abort()
    for (const { asking } of [...this.#approvals.values(), ...this.#questions.values()]) asking?.abort()
    this.#failAll(AcpErrors.failed("The session was closed. The sandbox goes on."))
  }

  #failAll(error: unknown): void {
    for (const prompt of [...this.#prompts.values(), ...(this.#first === null ? [] : [this.#first])]) prompt.fail(error)
    this.#prompts.clear()
    this.#first = null
    this.#caughtUp.reject(error)
    this.#caughtUp.promise.catch(() => undefined)
  }

  #follow(): void {
    if (this.#isFollowing) return
    this.#isFollowing = true
    void this.#read().finally(() => {
      this.#isFollowing = false
    })
  }

  async #read(): Promise<void> {
    const sandbox = this.#sandbox
    if (sandbox === null) return
    const { signal } = this.#closed
    const events = this.server.client.streamEvents(sandbox.id, {
      since: this.#cursor,
      signal,
      giveUpMillis: Infinity,
      onLost: (_, wait) => this.#editor.log(`the connection to ${this.server.url} is lost; trying again in ${Math.ceil(wait / 1000)} s.`)
    })
    try {
      for (;;) {
        const next = await Effect.runPromise(this.server.next(events))
        if (next.done === true) break
        await this.#sending
        await this.#heard(next.value)
      }
      if (signal.aborted) return
      this.#live()
      this.#failAll(AcpErrors.failed(`The sandbox ${sandbox.id} has ended. Start a new session.`))
    } catch (error) {
      if (signal.aborted) return
      // The next prompt follows again, behind the last event.
      this.#failAll(error instanceof CommandFailed ? error : AcpErrors.errorOf(error, this.#editor.log))
    }
  }

  async #heard(event: StreamEvent): Promise<void> {
    if ("id" in event) this.#cursor = event.id
    this.#claimFirst(event)
    const updates = this.#updates.of(event, (turn) => this.#own.has(turn))
    if (!this.#isQuiet) { for (const update of updates) await this.#show(update) }
    this.#decisions(event)
    this.#turns(event)
    if (event.type === "sandbox.status" && !("id" in event)) this.#live()
  }

  /** The log has been read: from now on events are shown, and a person is asked. */
  #live(): void {
    this.#isQuiet = false
    this.#isLive = true
    this.#caughtUp.resolve()
    for (const { asking, request } of this.#approvals.values()) if (asking === null) this.#inBackground(this.#askApproval(request))
    for (const { asking, request } of this.#questions.values()) if (asking === null) this.#inBackground(this.#askQuestion(request))
  }

  /** The first turn of a new sandbox is that of its prompt. */
  #claimFirst(event: StreamEvent): void {
    const turn = "turn_id" in event ? event.turn_id : undefined
    if (this.#first === null || turn === undefined) return
    this.#prompts.set(turn, this.#first)
    this.#own.add(turn)
    this.#first = null
  }

  #turns(event: StreamEvent): void {
    if (event.type === "message.completed") this.#finish = event.data.finish
    if (event.type === "message.queued") this.#queued.add(event.data.message_id)
    if (event.type === "turn.started") {
      this.#finish = undefined
      this.#queued.delete(event.data.prompt_id)
      if (this.#prompts.get(event.data.prompt_id)?.isCancelled === true) this.#inBackground(this.#interrupt())
    }
    if (event.type === "turn.updated" && event.turn_id !== undefined) this.#queued.delete(event.turn_id)
    if (event.type === "message.cancelled") this.#over(event.data.message_id, { state: "cancelled" })
    if (event.type === "turn.completed" && event.turn_id !== undefined) this.#over(event.turn_id, event.data)
  }

  #over(turn: string, end: TurnEnd): void {
    this.#queued.delete(turn)
    this.#ended.set(turn, end)
    for (const old of this.#ended.keys()) {
      if (this.#ended.size <= MAX_ENDED) break
      this.#ended.delete(old)
    }
    this.#prompts.get(turn)?.done(end)
    this.#prompts.delete(turn)
  }

  // Approvals and questions -----------------------------------------------------------------------------------------

  #decisions(event: StreamEvent): void {
    switch (event.type) {
      case "approval.requested":
        this.#approvals.set(event.data.approval_id, { request: event.data, asking: null })
        if (this.#isLive) this.#inBackground(this.#askApproval(event.data))
        return
      case "approval.resolved":
        this.#approvals.get(event.data.approval_id)?.asking?.abort()
        this.#approvals.delete(event.data.approval_id)
        return
      case "question.asked":
        this.#questions.set(event.data.question_id, { request: event.data, asking: null })
        if (this.#isLive) this.#inBackground(this.#askQuestion(event.data))
        return
      case "question.answered":
        this.#questions.get(event.data.question_id)?.asking?.abort()
        this.#questions.delete(event.data.question_id)
    }
  }

  /** A person may take hours, and events go on meanwhile. */
  #inBackground(asking: Promise<void>): void {
    asking.catch((error: unknown) =>
      this.#editor.log(`a request of this session failed: ${AcpErrors.errorOf(error, this.#editor.log).message}`)
    )
  }

  async #askApproval(request: ApprovalRequest): Promise<void> {
    const sandbox = this.#sandbox
    if (sandbox === null) return
    const asking = new AbortController()
    const { approval_id } = request
    this.#approvals.set(approval_id, { request, asking })
    const options = Inquiries.optionsOf(request, Editor.showsForms(this.#editor))
    const toolCall = ToolCalls.ofApproval(this.place, request)
    const chosen = await Editor.choose(this.#editor, { sessionId: this.id, toolCall, options }, asking.signal)
    const why = chosen === Inquiries.DENY_WITH_REASON
      ? await Editor.fill(this.#editor, Inquiries.reasonForm(this.id, approval_id), asking.signal)
      : null
    const decision = chosen === null ? null : Inquiries.decisionOf(chosen, Inquiries.reasonIn(why?.content ?? {}))
    if (decision === null || asking.signal.aborted) return
    await this.#decided(
      `slipway approve ${sandbox.id} ${shellWord(approval_id)}`,
      (signal) => this.server.client.decideApproval(sandbox.id, approval_id, decision, { signal })
    )
  }

  async #askQuestion(request: QuestionRequest): Promise<void> {
    const sandbox = this.#sandbox
    if (sandbox === null) return
    const asking = new AbortController()
    const { question_id } = request
    this.#questions.set(question_id, { request, asking })
    const command = `slipway answer ${sandbox.id} --question ${shellWord(question_id)}`
    const reply = await this.#replyTo(request, command, asking.signal)
    if (reply === null || asking.signal.aborted) return
    await this.#decided(command, (signal) => this.server.client.answerQuestion(sandbox.id, question_id, reply, { signal }))
  }

  /** `null`: no person answered here. */
  async #replyTo(request: QuestionRequest, command: string, signal: AbortSignal) {
    if (Editor.showsForms(this.#editor)) {
      const filled = await Editor.fill(this.#editor, Inquiries.formOf(this.id, request), signal)
      if (filled === null) return null
      return Inquiries.replyOf(request, filled.action === "decline" ? {} : filled.content)
    }
    const options = Inquiries.choicesOf(request)
    const about = request.questions.map(({ options, text }) => [text, ...options.map(({ label }) => `- ${label}`)].join("\n")).join("\n")
    if (options === null) {
      await this.say(`The agent asks:\n${about}\nAnswer with: ${command} ANSWER`)
      return null
    }
    const toolCallId = `slipway:question:${request.question_id}`
    const title = line(request.questions[0]?.text ?? "")
    await this.#show({ sessionUpdate: "tool_call", toolCallId, title, kind: "other", status: "pending" })
    const chosen = await Editor.choose(
      this.#editor,
      { sessionId: this.id, toolCall: { toolCallId, title, kind: "other" }, options },
      signal
    )
    await this.#show({ sessionUpdate: "tool_call_update", toolCallId, status: "completed" })
    return chosen === null ? null : Inquiries.choiceOf(request, chosen)
  }

  /** Sends a decision. `command` decides the same later. */
  async #decided(
    command: string,
    send: (signal: AbortSignal) => Promise<{ readonly outcome: string; readonly rejection?: Parameters<typeof rejection>[0] }>
  ): Promise<void> {
    try {
      const { outcome, rejection: word } = await this.call(send)
      if (outcome === "rejected") await this.say(rejection(word))
    } catch (error) {
      await this.say(`${AcpErrors.errorOf(error, this.#editor.log).message} Decide with: ${command}`)
    }
  }
}
