/** `Machines` by a command of the operator's: `docs/operating/machines.md` has its interface. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type Child, killGroup, Spawn } from "@slipway/machine/node/spawner/Spawn"
import { StderrTail } from "@slipway/machine/node/StderrTail"
import { Duration, Effect, Layer, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { Address } from "../wire/RunnerSettings.ts"
import { Machines, settingsOf } from "./Machines.ts"

export interface Options {
  /** An absolute path. */
  readonly program: string
  /** Tells machines of this worker from those of others that the program makes. */
  readonly installation: string
  /** Times that its calls may take. */
  readonly within?: Partial<Readonly<Record<Call, Duration.Input>>>
}

type Call = "ensure" | "remove" | "list"

const operations = { ensure: "provision", remove: "stop", list: "list" } as const

const WITHIN = { ensure: "2 minutes", remove: "1 minute", list: "1 minute" } as const

/** A list of a hundred thousand sandboxes is longer. */
const MAXIMUM_BYTES = 2 ** 20

/** The environment variables that the program gets: the worker's own environment holds secrets. */
const ENVIRONMENT = ["PATH", "HOME", "LANG", "TMPDIR"] as const

const Answers = {
  ensure: Schema.Union([
    Schema.Struct({ path: Schema.String.check(Schema.isPattern(/^\/[^\0]{1,106}$/u)) }),
    Schema.Struct({
      host: Schema.String.check(Schema.isPattern(/^[\w.:%-]{1,253}$/u)),
      port: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 }))
    })
  ]),
  list: Schema.Array(SandboxId)
}

const decodeAddress = Schema.decodeUnknownEffect(Schema.fromJsonString(Answers.ensure))
const decodeList = Schema.decodeUnknownEffect(Schema.fromJsonString(Answers.list))

interface Failed {
  readonly how: string
  /** For the operator's log, who wrote the program. */
  readonly said: string
}

/** Its last words, without what may be a key. */
const lastOf = (stderr: StderrTail): string => (stderr.text.trim().split("\n").at(-1) ?? "").slice(-300).replaceAll(/[\w+/=]{40,}/gu, "…")

export const make = ({ installation, program, within = {} }: Options) => {
  const call = Effect.fnUntraced(function*(name: Call, input: object) {
    const operation = operations[name]
    const failed = (detail: string, retryable = true) => new HostError({ operation, detail: `${program} ${name} ${detail}`, retryable })
    const spawn = yield* Spawn
    const env = Object.fromEntries(ENVIRONMENT.flatMap((key) => process.env[key] === undefined ? [] : [[key, process.env[key]]]))
    const child = yield* Effect.acquireRelease(
      Effect.tryPromise({
        try: () => spawn(program, [name], { cwd: "/", env }),
        catch: (error) =>
          failed(`could not be started (${String(codeOf(error))}).`, codeOf(error) === "EAGAIN" || codeOf(error) === "ENOMEM")
      }),
      (child: Child) =>
        Effect.sync(() => {
          if (child.ended() === null) killGroup(child.pid)
          for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe?.destroy()
        })
    )
    const stderr = new StderrTail()
    child.stderr.on("data", (bytes: Uint8Array) => stderr.add(bytes))
    const output = Effect.callback<string, Failed | HostError>((resume) => {
      const chunks: Array<Buffer> = []
      let size = 0
      child.stdout?.on("data", (chunk: Buffer) => {
        chunks.push(chunk)
        size += chunk.length
        if (size > MAXIMUM_BYTES) resume(Effect.fail(failed(`said more than ${MAXIMUM_BYTES} bytes.`)))
      })
      // It was told nothing, where it does not read.
      child.stdin?.end(JSON.stringify(input))
      void child.closed.then(({ code, signal }) => {
        const how = code === null ? `was ended by ${signal}` : `exited with ${code}`
        resume(code === 0 ? Effect.succeed(Buffer.concat(chunks).toString("utf8")) : Effect.fail({ how, said: lastOf(stderr) }))
      })
    }).pipe(Effect.catch((error) => {
      if (error instanceof HostError) return Effect.fail(error)
      const { how, said } = error
      return Effect.andThen(
        Effect.logWarning("the program that makes machines failed", { program, call: name, how, said }),
        Effect.fail(failed(`${how}; the log has what it said.`))
      )
    }))
    const limit = within[name] ?? WITHIN[name]
    return yield* Effect.timeoutOrElse(output, {
      duration: limit,
      orElse: () =>
        Effect.fail(failed(`has not ended, or left its output open, after ${Duration.format(Duration.fromInputUnsafe(limit))}.`))
    })
  }, Effect.scoped)

  const odd = (name: "ensure" | "list") => () =>
    new HostError({
      operation: operations[name],
      detail: `${program} ${name} answered what docs/operating/machines.md does not say.`,
      retryable: false
    })

  return Machines.of({
    isolation: "runner",
    // The program, or a file that it names, has the programs of machines.
    programs: Effect.promise(async () => createHash("sha256").update(await readFile(program).catch(() => "")).digest("hex").slice(0, 16)),
    ensure: Effect.fn("Machines.ensure")(function*(order) {
      const { fence, sandboxId } = order
      const output = yield* call("ensure", { installation, sandbox: sandboxId, fence, settings: settingsOf(order) })
      const address: Address = yield* Effect.mapError(decodeAddress(output), odd("ensure"))
      return address
    }),
    remove: Effect.fn("Machines.remove")((sandboxId) => Effect.asVoid(call("remove", { installation, sandbox: sandboxId }))),
    list: Effect.mapError(
      Effect.flatMap(call("list", { installation }), decodeList),
      (error) => error instanceof HostError ? error : odd("list")()
    ).pipe(Effect.withSpan("Machines.list")),
    // It answers when it is called, and knows of this installation alone.
    losses: Stream.never,
    removeAbandoned: () => Effect.succeed([])
  })
}

export const layer = (options: Options): Layer.Layer<Machines> => Layer.sync(Machines, () => make(options))
