/** `AgentRuntime` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AgentError, AgentRuntime } from "../../src/sandbox/ports/AgentRuntime.ts"
import { MemoryDisk } from "../files/MemoryDisk.ts"
import { begin, run, type Running, type Session } from "./OfflineTurn.ts"

/**
 * An agent in this process, for tests and for embedding. It follows scripts like the offline agent (docs/decisions/14), on the files of
 * `MemoryDisk`. It runs no commands: `[[shell …]]` is a failing tool call. Passes `sessions` of the contract suite.
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

        const session: Session = {
          box,
          repositories,
          toolApprovalMode,
          files,
          process,
          earlier,
          remember: (prompt) => {
            earlier.push(prompt)
            files.set(fileOfSession(sessionId), earlier.map((prompt) => `${JSON.stringify(prompt)}\n`).join(""))
          },
          nextNumber: () => ++sequence,
          finish: (turn) => {
            if (current === turn) current = null
          }
        }

        return {
          sessionId: Effect.succeed(sessionId),
          prompt: (prompt) =>
            Effect.suspend(() => {
              const turn = begin()
              if (gone) return Effect.fail(failure("prompt", "The agent has ended.", true))
              current = turn
              return Effect.andThen(prompt.onBegin ?? Effect.void, run(session, turn, prompt)).pipe(
                Effect.filterOrFail(() => turn.ended !== "died", () => failure("prompt", "The agent has ended.", true)),
                Effect.ensuring(Effect.sync(() => current = null))
              )
            }),
          decide: (approvalId, decision, reason) =>
            Effect.suspend(() => {
              const open = current?.approvals.get(approvalId)
              return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, { decision, reason }))
            }),
          answer: (questionId, answers) =>
            Effect.suspend(() => {
              const open = current?.questions.get(questionId)
              return open === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(open, answers))
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

/** The prompts that the agent of a session has had, oldest first. */
export const remembered = (files: ReadonlyMap<string, string>, home: string, session: string): ReadonlyArray<string> =>
  promptsIn(files.get(`${home}/${SESSIONS}/${session}`) ?? "")

/** Whether the session is in that home. */
export const hasSession = (files: ReadonlyMap<string, string>, home: string, session: string): boolean =>
  files.has(`${home}/${SESSIONS}/${session}`)
