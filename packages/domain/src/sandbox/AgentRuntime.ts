/** Port: something that runs a coding agent inside a sandbox's box. Checked by `testing/AgentRuntimeContract`. */
import { Context, Deferred, Effect, Latch, Layer, type Redacted, Result, Schema, type Scope, type Stream } from "effect"
import { normalizePath } from "../files/FileRules.ts"
import { MemoryDisk } from "../files/MemoryDisk.ts"
import type { Uuid } from "../Ids.ts"
import type { RepoName } from "../source/RepoRef.ts"
import type { Box } from "./SandboxHost.ts"
import * as ToolCall from "./ToolCall.ts"
import { Detail, Preview, ToolKind } from "./ToolCall.ts"
import type { TurnOutcome } from "./Turn.ts"

/** The public names of the runtimes (interface 2.1). The offline agent reports itself as `opencode`. */
export const AgentRuntimeName = Schema.Literals(["opencode", "codex", "claude", "grok"])
export type AgentRuntimeName = typeof AgentRuntimeName.Type

/** `prompt`: the agent asks before it edits or runs anything. `auto`: it never asks. */
export const ToolApprovalMode = Schema.Literals(["auto", "prompt"])
export type ToolApprovalMode = typeof ToolApprovalMode.Type

/** Reasoning efforts of the interface, weakest first. A model accepts the ones its catalogue entry lists. */
export const ReasoningEffort = Schema.Literals(["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"])
export type ReasoningEffort = typeof ReasoningEffort.Type

/** How the last message of a turn ended. */
export const Finish = Schema.Literals(["end_turn", "max_tokens", "refusal", "cancelled", "error"])
export type Finish = typeof Finish.Type

/**
 * What an agent does during a turn, in the order it happened. Native frames never get this far. Texts are whole, not
 * deltas: each `MessageUpdated` replaces the one before of the same part. A message is whole when the next one or the next
 * tool call begins, or the turn ends.
 */
export const AgentEvent = Schema.TaggedUnion({
  /**
   * `text` is all of the part so far. `messageId` is unique within the sandbox. A message has one text at most, and before
   * it one thought at most.
   */
  MessageUpdated: { messageId: Schema.String, kind: Schema.Literals(["text", "reasoning"]), text: Schema.String },
  /** Statuses of one call only move forward: pending, running, then completed or error. `tool` is for display. */
  ToolUpdated: {
    callId: Schema.String,
    tool: Schema.String,
    status: Schema.Literals(["pending", "running", "completed", "error"]),
    error: Schema.optionalKey(Schema.String),
    detail: Schema.optionalKey(Detail)
  },
  /**
   * The agent waits until `decide` names this id. Sent in `prompt` mode only, and only for calls of which a person can see
   * what they do: others are denied at once. Paths are relative to the workspace.
   */
  ApprovalRequested: {
    approvalId: Schema.String,
    tool: Schema.String,
    kind: Schema.optionalKey(ToolKind),
    paths: Schema.optionalKey(Schema.Array(Schema.String)),
    preview: Schema.optionalKey(Preview)
  },
  /** Totals of the turn so far as the agent counts them: for display while it runs, not for charging. */
  UsageReported: { llmRequestCount: Schema.Int, costMicroUsd: Schema.Int }
})
export type AgentEvent = typeof AgentEvent.Type

/** How the agent ended a turn. `interrupted` only after our own `interrupt`. `reason` is a sentence, free of secrets. */
export interface TurnEnd {
  readonly state: "succeeded" | "failed" | "interrupted"
  readonly reason?: string
  /** Absent: as `finishes` has it for the state. */
  readonly finish?: Finish
}

/** How the last message ends when nothing else is said of it. */
export const finishes: Readonly<Record<TurnOutcome, Finish>> = {
  succeeded: "end_turn",
  interrupted: "cancelled",
  cancelled: "cancelled",
  failed: "error"
}

/** The agent could not start, answered nonsense or is gone. `retryable`: a new process may succeed. */
export class AgentError extends Schema.TaggedError<AgentError>()("AgentError", {
  runtime: Schema.String,
  operation: Schema.Literals(["open", "prompt"]),
  /** A sentence for people: what happened and what to do. Free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean,
  /** It sent a message that is larger than any is read. */
  tooLarge: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    return `${this.runtime}: ${this.detail}`
  }
}

/** What an agent is told of its model: an address on this machine and a token that is good for this sandbox alone. */
export interface ModelAccess {
  /** Without a slash at its end; `/v1/chat/completions` and its like follow. */
  readonly baseUrl: string
  readonly token: Redacted.Redacted
  /** The model as the agent must name it. */
  readonly model: string
  readonly contextTokens: number
  readonly outputTokens: number
}

/** What an agent is started with. */
export interface AgentSessionOptions {
  readonly box: Box
  /** Name of the profile in the runtime registry, e.g. `offline` or `codex`. */
  readonly profile: string
  /** The model's id in our catalogue. */
  readonly model: string
  /** How the agent reaches its model; `null`: it uses none. */
  readonly access: ModelAccess | null
  readonly reasoningEffort: ReasoningEffort | null
  readonly toolApprovalMode: ToolApprovalMode
  /** The repositories and their folders below the box's workspace, first one first. */
  readonly repositories: ReadonlyArray<{ readonly name: RepoName; readonly folder: string }>
  /** What the repositories ask of agents (their `AGENTS.md`), as Markdown; `null`: nothing. */
  readonly instructions: string | null
  /** Native id of an earlier session of this sandbox: its conversation goes on. */
  readonly resume: string | null
}

/** One live agent process. Prompts run one at a time. */
export interface AgentSession {
  /** The runtime's own id, good for `resume`. May be known only after the first prompt. */
  readonly sessionId: Effect.Effect<string | null>
  /**
   * Runs one prompt: `onEvent` sees each event before the next is read from the agent, so a slow consumer slows the
   * agent down. Succeeds when the turn ended, however it ended; fails when the agent is gone or broke its protocol.
   */
  prompt(options: {
    readonly turnId: Uuid
    readonly text: string
    readonly onEvent: (event: AgentEvent) => Effect.Effect<void>
  }): Effect.Effect<TurnEnd, AgentError>
  /** Answers an open approval. Safe to repeat; an id that is not open is ignored. */
  decide(approvalId: string, decision: "approve" | "deny"): Effect.Effect<void>
  /**
   * Asks the agent to end the running turn. Open approvals count as denied. Does nothing when no turn runs. It does not
   * wait: `prompt` ends when the agent obeys, and the scope is closed on one that takes too long.
   */
  readonly interrupt: Effect.Effect<void>
  /** Completes when the process has ended, with a sentence saying how. */
  readonly exited: Effect.Effect<string>
}

/** Errors are for the worker: it opens the agent again as long as they are retryable. */
export class AgentRuntime extends Context.Service<AgentRuntime, {
  /** Starts the agent and its session. The process tree ends with the scope, gently first, then by force. */
  open(options: AgentSessionOptions): Effect.Effect<AgentSession, AgentError, Scope.Scope>
}>()("@slipway/domain/AgentRuntime") {
  /**
   * An agent in this process, for tests and for embedding: it follows scripts as the offline agent does (decisions,
   * section 14), on the files of `MemoryDisk`. It runs no commands: `[[shell …]]` is a tool call that fails. Passes
   * `sessions` of the contract suite.
   */
  static readonly layerMemory = Layer.effect(
    AgentRuntime,
    Effect.map(MemoryDisk, ({ files }) => {
      const conversations = new Map<string, Array<string>>()
      let sequence = 0
      const nextId = (prefix: string) => `${prefix}_${++sequence}`

      return AgentRuntime.of({
        open: Effect.fn("AgentRuntime.open")(function*({ box, profile, repositories, resume, toolApprovalMode }) {
          const failure = (operation: "open" | "prompt", detail: string, retryable: boolean) =>
            new AgentError({ runtime: profile, operation, detail, retryable })
          if (profile !== "offline") return yield* failure("open", "There is no such agent here.", false)
          const sessionId = resume ?? nextId("session")
          const earlier = resume === null ? [] : conversations.get(resume)
          if (earlier === undefined) return yield* failure("open", "There is no such session.", false)
          conversations.set(sessionId, earlier)

          const process = yield* box.spawn({ command: "offline-agent", args: [], env: {} }).pipe(
            Effect.mapError((error) => failure("open", error.detail, error.retryable))
          )
          let gone = false
          let current: Running | null = null
          const stop = (why: Running["ended"]) =>
            Effect.sync(() => {
              if (current === null) return
              current.ended ??= why
              current.stopped.openUnsafe()
            })
          const die = Effect.andThen(Effect.sync(() => gone = true), stop("died"))
          yield* Effect.forkScoped(Effect.andThen(process.exited, die))
          yield* Effect.addFinalizer(() => die)

          const run = Effect.fnUntraced(function*(turn: Running, text: string, onEvent: (event: AgentEvent) => Effect.Effect<void>) {
            const pause = <A>(self: Effect.Effect<A>) => Effect.raceFirst(self, turn.stopped.await)
            /** The message whose thought was said and whose text was not. */
            let thought: string | null = null
            const speak = (said: string, kind: "text" | "reasoning" = "text") => {
              const messageId: string = kind === "text" && thought !== null ? thought : nextId("msg")
              thought = kind === "text" ? null : messageId
              return onEvent({ _tag: "MessageUpdated", messageId, kind, text: said })
            }
            const call = Effect.fnUntraced(function*(
              about: Pick<ToolCall.ToolCall, "command" | "diff"> & { readonly kind: ToolKind; readonly paths: ReadonlyArray<string> },
              title: string,
              work: () => string | null
            ) {
              thought = null
              const callId = nextId("call")
              const { kind, paths } = about
              const tool = ToolCall.shownTitle(title)
              const detail = ToolCall.detail(about)
              const updated = (status: "pending" | "running" | "completed") =>
                onEvent({ _tag: "ToolUpdated", callId, tool, status, ...(detail === undefined ? {} : { detail }) })
              const failed = (error: string) =>
                onEvent({ _tag: "ToolUpdated", callId, tool, status: "error", error, ...(detail === undefined ? {} : { detail }) })
              yield* updated("pending")
              if (toolApprovalMode === "prompt") {
                const preview = ToolCall.preview(about)
                if (Result.isFailure(preview)) {
                  yield* failed(`denied: ${preview.failure}`)
                  return yield* speak(`I was not allowed to do this, so I left it: ${tool}`)
                }
                const decision = yield* Deferred.make<"approve" | "deny">()
                turn.approvals.set(callId, decision)
                yield* onEvent({ _tag: "ApprovalRequested", approvalId: callId, tool, kind, paths, preview: preview.success })
                const decided = yield* pause(Deferred.await(decision))
                turn.approvals.delete(callId)
                if (turn.ended !== null) return yield* failed("Cancelled.")
                if (decided !== "approve") {
                  yield* failed("Denied.")
                  return yield* speak(`I was not allowed to do this, so I left it: ${tool}`)
                }
              }
              yield* updated("running")
              if (turn.ended !== null) return yield* failed("Cancelled.")
              const problem = work()
              if (problem === null) return yield* updated("completed")
              yield* failed(problem)
              yield* speak(`This did not work: ${tool}. ${problem}`)
            })
            const edit = (verb: "Write" | "Delete", { path, repo }: EditedFile, content: (before: string | undefined) => string | null) => {
              const folder = repositories.find(({ name }) => repo === null || name.toLowerCase() === repo.toLowerCase())?.folder
              const normal = Result.getOrElse(normalizePath(path), () => "")
              const file = folder === undefined || normal === "" ? undefined : `${box.workspace}/${folder}/${normal}`
              const before = file === undefined ? undefined : files.get(file)
              const paths = folder === undefined ? [] : [`${folder}/${normal}`]
              const diff = ToolCall.unifiedDiff(paths[0] ?? path, before ?? null, content(before))
              return call({ kind: "edit", paths, diff }, `${verb} ${path}`, () => {
                if (folder === undefined) return "The sandbox has no such repository."
                if (file === undefined) return "The path must be inside the repository."
                const text = content(files.get(file))
                if (text === null && !files.delete(file)) return "There is no such file."
                if (text !== null) files.set(file, text)
                return null
              })
            }

            const before = [...earlier]
            earlier.push(text)
            const steps = Array.from(text.matchAll(DIRECTIVE), ([, name = "", body = ""]) => ({ name, body: body.trim() }))
            if (steps.length === 0) {
              yield* edit("Write", { path: "NOTES.md", repo: null }, (notes = "") => `${notes}${text}\n`)
              yield* speak("I have added your message to NOTES.md.")
            }
            for (const { body, name } of steps) {
              if (turn.ended !== null) break
              switch (name) {
                case "say":
                case "think":
                  yield* speak(body, name === "say" ? "text" : "reasoning")
                  break
                case "write":
                case "delete": {
                  const file = fileOf(body)
                  const content = /(?:^|\s)content=([^]*)$/u.exec(body)?.[1]
                  if (file === null || name === "write" && content === undefined) {
                    return { state: "failed", reason: `[[${name}]] is not complete.` }
                  }
                  yield* edit(name === "write" ? "Write" : "Delete", file, () => content === undefined ? null : `${content}\n`)
                  break
                }
                case "shell":
                  yield* call({ kind: "command", command: body, paths: [] }, body, () => "This agent runs no commands.")
                  break
                case "slow": {
                  const [words = 0, millis = 0] = body.split(/\s+/u).map(Number)
                  const messageId: string = thought ?? nextId("msg")
                  thought = null
                  let said = ""
                  for (let word = 1; word <= words && turn.ended === null; word++) {
                    said += `word${word} `
                    yield* onEvent({ _tag: "MessageUpdated", messageId, kind: "text", text: said })
                    yield* pause(Effect.sleep(millis))
                  }
                  break
                }
                case "hang":
                  yield* pause(Effect.never)
                  break
                case "crash":
                  yield* process.endInput
                  yield* pause(Effect.never)
                  break
                case "error":
                  return { state: "failed", reason: body }
                case "recall":
                  yield* speak(before.length === 0 ? "This is the first prompt of the session." : before.join("\n"))
                  break
              }
            }
            return { state: isOver(turn) ? "interrupted" : "succeeded" }
          }) satisfies (...args: never) => Effect.Effect<TurnEnd>

          return {
            sessionId: Effect.succeed(sessionId),
            prompt: ({ onEvent, text }) =>
              Effect.suspend(() => {
                const turn: Running = { ended: null, stopped: Latch.makeUnsafe(false), approvals: new Map() }
                if (gone) return Effect.fail(failure("prompt", "The agent has ended.", true))
                current = turn
                return run(turn, text, onEvent).pipe(
                  Effect.filterOrFail(() => turn.ended !== "died", () => failure("prompt", "The agent has ended.", true)),
                  Effect.ensuring(Effect.sync(() => current = null))
                )
              }),
            decide: (approvalId, decision) =>
              Effect.suspend(() => {
                const open = current?.approvals.get(approvalId)
                return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, decision))
              }),
            interrupt: stop("interrupted"),
            exited: Effect.map(process.exited, ({ code, signal }) => `the agent ended (${signal ?? `code ${code}`})`)
          }
        })
      })
    })
  )
}

/** A turn of the memory layer's agent. */
interface Running {
  ended: "interrupted" | "died" | null
  readonly stopped: Latch.Latch
  readonly approvals: Map<string, Deferred.Deferred<"approve" | "deny">>
}
const isOver = (turn: Running): boolean => turn.ended !== null

const DIRECTIVE = /\[\[(say|think|write|delete|shell|slow|hang|error|crash|recall)(?:\s+([^]*?))?\]\]/gu

interface EditedFile {
  readonly path: string
  readonly repo: string | null
}
const fileOf = (body: string): EditedFile | null => {
  const options = body.replace(/(?:^|\s)content=[^]*$/u, "")
  const path = /(?:^|\s)path=(\S+)/u.exec(options)?.[1]
  return path === undefined ? null : { path, repo: /(?:^|\s)repo=(\S+)/u.exec(options)?.[1] ?? null }
}

/** Frames from an agent as a stream of bytes; what a driver builds on. */
export type ByteStream = Stream.Stream<Uint8Array, never>
