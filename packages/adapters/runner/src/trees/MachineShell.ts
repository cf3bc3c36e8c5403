/** Runs the script of trees in the machine of a sandbox, through its runner. The answers are as trustworthy as the machine. */
import { TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { GitFailed } from "@slipway/git/Git"
import { BOX_ENVIRONMENT } from "@slipway/git/tree/BoxScript"
import { isPassing } from "@slipway/machine/node/SpawnFailure"
import { Duration, Effect, Stream } from "effect"
import type { RunnerConnection } from "../client/RunnerClient.ts"
import type { ProcessRefused, RunnerError } from "../client/RunnerErrors.ts"
import type { Runners } from "../client/Runners.ts"
import { SCRIPT } from "./MachineScript.ts"

const unavailable = (detail: string, retryable: boolean) => new TreesUnavailable({ detail, retryable })

const UNREACHABLE = "The sandbox's machine cannot be reached."

/** Maps an error of the machine to an error of the trees. */
export const explain = (error: HostError | ProcessRefused | RunnerError): TreesUnavailable => {
  switch (error._tag) {
    case "HostError":
      return unavailable(error.detail, error.retryable)
    case "ProcessRefused":
      return unavailable(`The sandbox's machine starts no process (${error.code}).`, isPassing(error.code))
    case "RunnerUnreachable":
      return unavailable(UNREACHABLE, true)
    case "RunnerRefused":
      return unavailable(UNREACHABLE, error.reason === "session")
    case "RunnerViolation":
      return unavailable("The sandbox's machine answers what no runner says.", false)
  }
}

/** The output of the script: names and numbers. */
const MAXIMUM_OUTPUT_BYTES = 65_536

/** The usual PATH of every machine. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/** The time limit of making and of removing a tree: below the ten minutes that a sandbox has to boot. */
const WITHIN = Duration.minutes(9)

const IN_MACHINE = "in the machine"

/** Whether git failed in the machine: its disk is not ours. */
export const isOfMachine = ({ command }: GitFailed): boolean => command.startsWith(IN_MACHINE)

/** Sends the script's input: `write` waits until the runner may have more. */
export type Feed = (write: (bytes: Uint8Array) => Effect.Effect<void>) => Effect.Effect<void, GitFailed>

const NOTHING: Feed = () => Effect.void

export type MachineShell = ReturnType<typeof make>

export const make = (runners: Runners["Service"]) => {
  /** The connection to its runner, as long as the scope is open. */
  const connection = (sandboxId: SandboxId) => Effect.mapError(runners.connection(sandboxId), explain)

  /** Runs a part of the script to its end, and answers its output. */
  const runOn = Effect.fnUntraced(function*(
    { spawn }: RunnerConnection,
    what: "make" | "put" | "leave" | "ask" | "remove",
    args: ReadonlyArray<string>,
    feed: Feed
  ) {
    const failed = (reason: GitFailed["reason"], code: number | null, stderr: string) =>
      new GitFailed({ command: `${IN_MACHINE} (${what})`, reason, code, stderr: stderr.slice(-4_000) })
    return yield* Effect.gen(function*() {
      const process = yield* spawn({
        command: "sh",
        args: ["-c", SCRIPT, "slipway-trees", what, ...args],
        env: { ...BOX_ENVIRONMENT, PATH, LANG: "C.UTF-8", TMPDIR: "/tmp" },
        cwd: "/"
      })
      const chunks: Array<Uint8Array> = []
      let size = 0
      const heard = Effect.andThen(
        Stream.runForEach(process.stdout, (bytes) => {
          size += bytes.length
          if (size > MAXIMUM_OUTPUT_BYTES) return Effect.fail(failed("output", null, ""))
          chunks.push(bytes)
          return Effect.void
        }),
        process.exited
      )
      // A script that ends early gets no more input.
      const fed = Effect.andThen(Effect.andThen(feed(process.write), process.endInput), Effect.never)
      const { code } = yield* Effect.raceFirst(heard, fed)
      if (code !== 0) return yield* failed(code === null ? "lost" : "exit", code, yield* process.stderrTail)
      return Buffer.concat(chunks).toString("latin1")
    }).pipe(
      Effect.scoped,
      Effect.catchTag(["ProcessRefused", "RunnerUnreachable", "RunnerRefused", "RunnerViolation"], (error) => Effect.fail(explain(error))),
      Effect.timeoutOrElse({ duration: WITHIN, orElse: () => Effect.fail(failed("timeout", null, "")) })
    )
  })

  const run = Effect.fnUntraced(function*(
    sandboxId: SandboxId,
    what: Parameters<typeof runOn>[1],
    args: ReadonlyArray<string>,
    feed: Feed = NOTHING
  ) {
    // Trees are made before there is a box, or beside that.
    const isMade = what === "make" || what === "put"
    const runner = isMade ? Effect.mapError(runners.making(sandboxId), explain) : connection(sandboxId)
    return yield* runOn(yield* runner, what, args, feed)
  }, Effect.scoped)

  return { connection, run, has: runners.has }
}
