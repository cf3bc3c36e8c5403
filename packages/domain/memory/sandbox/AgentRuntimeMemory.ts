/** `AgentRuntime` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { AgentError, AgentRuntime, type AgentSession, type TurnEnd } from "../../src/sandbox/ports/AgentRuntime.ts"
import * as PlainEdit from "../../src/sandbox/rules/PlainEdit.ts"
import * as ToolCall from "../../src/sandbox/rules/ToolCall.ts"
import type { ToolKind } from "../../src/sandbox/rules/ToolCall.ts"
import { normalizePath } from "../../src/source/rules/FileRules.ts"
import { MemoryDisk } from "../files/MemoryDisk.ts"

/**
 * An agent in this process, for tests and for embedding: it follows scripts as the offline agent does (docs/decisions/14), on the
 * files of `MemoryDisk`. It runs no commands: `[[shell …]]` is a tool call that fails. Passes
 * `sessions` of the contract suite.
 */
export const layer = Layer.effect(
  AgentRuntime,
  Effect.map(MemoryDisk, ({ files }) => {
    let sequence = 0

    return AgentRuntime.of({
      conversationFiles: (profile) => profile === "offline" ? [SESSIONS] : [],
      bearsOtherPaths: (profile) => ({ workspace: profile === "offline", home: profile === "offline" }),
      open: Effect.fn("AgentRuntime.open")(function*({ box, profile, repositories, resume, toolApprovalMode }) {
        const failure = (operation: "open" | "prompt", detail: string, retryable: boolean) =>
          new AgentError({ runtime: profile, operation, detail, retryable })
        if (profile !== "offline") return yield* failure("open", "There is no such agent here.", false)
        const fileOfSession = (id: string) => `${box.home}/${SESSIONS}/${id}`
        const fresh = (id: string): string => files.has(fileOfSession(id)) ? fresh(`session_${++sequence}`) : id
        const sessionId = resume ?? fresh(`session_${++sequence}`)
        const kept = resume === null ? "" : files.get(fileOfSession(resume))
        if (kept === undefined) return yield* failure("open", "There is no such session.", false)
        const earlier = promptsIn(kept)
        files.set(fileOfSession(sessionId), kept)

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

        const run = Effect.fnUntraced(function*(
          turn: Running,
          { onEvent, text, turnId }: Parameters<AgentSession["prompt"]>[0]
        ) {
          // Another machine may have run the turns before.
          const nextId = (prefix: string) => `${prefix}_${turnId}_${++sequence}`
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
              const decision = yield* Deferred.make<Decided>()
              turn.approvals.set(callId, decision)
              // A script names files below the folders of its trees.
              const isPlain = PlainEdit.isPlain({ ...about, removes: false }, paths.flatMap((path) => path.split("/").slice(0, 1)))
              const plain = isPlain ? { plain: true as const } : {}
              yield* onEvent({ _tag: "ApprovalRequested", approvalId: callId, tool, kind, paths, ...plain, preview: preview.success })
              const decided = yield* pause(Deferred.await(decision))
              turn.approvals.delete(callId)
              if (turn.ended !== null || decided === undefined) return yield* failed("Cancelled.")
              if (decided.decision !== "approve") {
                yield* failed("Denied.")
                const told = decided.reason === undefined ? "" : `. I was told: ${decided.reason}`
                return yield* speak(`I was not allowed to do this, so I left it: ${tool}${told}`)
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
          const remember = (prompt: string) => {
            earlier.push(prompt)
            files.set(fileOfSession(sessionId), earlier.map((prompt) => `${JSON.stringify(prompt)}\n`).join(""))
          }
          remember(text)
          const steps = stepsOf(text)
          if (steps.length === 0) {
            yield* edit("Write", { path: "NOTES.md", repo: null }, (notes = "") => `${notes}${text}\n`)
            yield* speak("I have added your message to NOTES.md.")
          }
          const perform = Effect.fnUntraced(function*({ body, name }: Step): Effect.fn.Return<TurnEnd | null> {
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
              case "listen":
                if (turn.steers.length === 0) yield* pause(turn.told.await)
                break
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
            return null
          })
          // What steers the turn comes before what is left of it.
          for (;;) {
            if (turn.ended !== null) break
            const steer = turn.steers.shift()
            if (steer !== undefined) {
              remember(steer.text)
              yield* onEvent({ _tag: "MessageSteered", messageId: steer.id })
              const told = stepsOf(steer.text)
              if (told.length === 0) yield* speak(`I was told: ${steer.text}`)
              steps.unshift(...told)
              continue
            }
            turn.told.closeUnsafe()
            const step = steps.shift()
            if (step === undefined) break
            const end = yield* perform(step)
            if (end !== null) return end
          }
          // From here on it takes nothing more.
          if (current === turn) current = null
          return { state: isOver(turn) ? "interrupted" : "succeeded" }
        }) satisfies (...args: never) => Effect.Effect<TurnEnd>

        return {
          sessionId: Effect.succeed(sessionId),
          prompt: (prompt) =>
            Effect.suspend(() => {
              const turn: Running = {
                ended: null,
                stopped: Latch.makeUnsafe(false),
                approvals: new Map(),
                steers: [],
                handed: new Set(),
                told: Latch.makeUnsafe(false)
              }
              if (gone) return Effect.fail(failure("prompt", "The agent has ended.", true))
              current = turn
              return Effect.andThen(prompt.onBegin ?? Effect.void, run(turn, prompt)).pipe(
                Effect.filterOrFail(() => turn.ended !== "died", () => failure("prompt", "The agent has ended.", true)),
                Effect.ensuring(Effect.sync(() => current = null))
              )
            }),
          decide: (approvalId, decision, reason) =>
            Effect.suspend(() => {
              const open = current?.approvals.get(approvalId)
              return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, { decision, reason }))
            }),
          interrupt: stop("interrupted"),
          steer: (message) =>
            Effect.sync(() => {
              if (current === null || current.ended !== null || current.handed.has(message.id)) return
              current.handed.add(message.id)
              current.steers.push(message)
              current.told.openUnsafe()
            }),
          exited: Effect.map(process.exited, ({ code, signal }) => `the agent ended (${signal ?? `code ${code}`})`)
        }
      })
    })
  })
)

/** Below the home: the prompts of each session, one JSON string per line. */
const SESSIONS = ".slipway-offline/sessions"

const promptsIn = (kept: string) => kept.split("\n").filter((line) => line !== "").map((line) => String(JSON.parse(line)))

/** The prompts that the agent of a session remembers, oldest first. */
export const remembered = (files: ReadonlyMap<string, string>, home: string, session: string): ReadonlyArray<string> =>
  promptsIn(files.get(`${home}/${SESSIONS}/${session}`) ?? "")

/** Whether the session is in that home. */
export const hasSession = (files: ReadonlyMap<string, string>, home: string, session: string): boolean =>
  files.has(`${home}/${SESSIONS}/${session}`)

interface Decided {
  readonly decision: "approve" | "deny"
  /** Why, where the person said so. */
  readonly reason: string | undefined
}

/** A turn of the memory layer's agent. */
interface Running {
  ended: "interrupted" | "died" | null
  readonly stopped: Latch.Latch
  readonly approvals: Map<string, Deferred.Deferred<Decided>>
  /** What steers it and was not taken yet. */
  readonly steers: Array<{ readonly id: string; readonly text: string }>
  /** Ids of all that it was handed. */
  readonly handed: Set<string>
  /** Open from when it is handed something. */
  readonly told: Latch.Latch
}

interface Step {
  readonly name: string
  readonly body: string
}

const stepsOf = (text: string): Array<Step> =>
  Array.from(text.matchAll(DIRECTIVE), ([, name = "", body = ""]) => ({ name, body: body.trim() }))

const isOver = (turn: Running): boolean => turn.ended !== null

const DIRECTIVE = /\[\[(say|think|write|delete|shell|slow|hang|listen|error|crash|recall)(?:\s+([^]*?))?\]\]/gu

interface EditedFile {
  readonly path: string
  readonly repo: string | null
}

const fileOf = (body: string): EditedFile | null => {
  const options = body.replace(/(?:^|\s)content=[^]*$/u, "")
  const path = /(?:^|\s)path=(\S+)/u.exec(options)?.[1]
  return path === undefined ? null : { path, repo: /(?:^|\s)repo=(\S+)/u.exec(options)?.[1] ?? null }
}
