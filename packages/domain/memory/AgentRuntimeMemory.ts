/** `AgentRuntime` in memory: for tests and for embedding without a database. State dies with the layer. */
import { Deferred, Effect, Latch, Layer, Result } from "effect"
import { type AgentEvent, type TurnEnd, AgentError, AgentRuntime } from "../src/sandbox/AgentRuntime.ts"
import * as ToolCall from "../src/sandbox/ToolCall.ts"
import { type ToolKind } from "../src/sandbox/ToolCall.ts"
import { normalizePath } from "../src/source/FileRules.ts"
import { MemoryDisk } from "./MemoryDisk.ts"

/**
 * An agent in this process, for tests and for embedding: it follows scripts as the offline agent does (decisions,
 * section 14), on the files of `MemoryDisk`. It runs no commands: `[[shell …]]` is a tool call that fails. Passes
 * `sessions` of the contract suite.
 */
export const layer = Layer.effect(
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
