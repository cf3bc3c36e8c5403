/** `slipway artifacts`: the files that the agent of a sandbox left for people. Their names and bytes are untrusted. */
import type { Artifact } from "@slipway/client"
import { fileName } from "@slipway/domain/files/rules/UploadedFile"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { createHash, randomUUID } from "node:crypto"
import { open, rename, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Server from "../client/server/Server.ts"
import { columns, json, print } from "../terminal/Output.ts"
import * as Stdout from "../terminal/Stdout.ts"

const unclear = (detail: string) => new Server.CommandFailed({ detail, exitCode: Server.ExitCode.unclear })

const codeOf = (error: unknown) => error instanceof Error && "code" in error ? String(error.code) : String(error)

const cannotWrite = (file: string) => (error: unknown) => unclear(`${file} cannot be written (${codeOf(error)}).`)

/** The file that a download makes by default: in this folder, never hidden. */
const ownName = (name: string) => {
  const own = fileName(name)
  return own.startsWith(".")
    ? Effect.fail(unclear(`${name} would be a hidden file here. Name one with --output FILE.`))
    : Effect.succeed(own)
}

/** Reserves the name, so that a file that appears meanwhile is not replaced. */
const reserve = (file: string) =>
  Effect.tryPromise({
    try: async () => await (await open(file, "wx", 0o600)).close(),
    catch: (error) =>
      codeOf(error) === "EEXIST"
        ? unclear(`${file} exists. Choose another name with --output FILE, or replace it with --force.`)
        : cannotWrite(file)(error)
  })

/** The bytes of the artifact, as they come. */
const bytesOf = async function*({ client }: Server.Server, id: string, { name }: Artifact, signal: AbortSignal) {
  const response = await client.getArtifact(id, name, { signal })
  if (response.body !== null) { for await (const bytes of response.body) yield bytes }
}

const CHANGED = "The artifact changed while it was downloaded. Try again."

/** Saves the artifact. The file has its name only when it is complete and has the listed SHA-256. */
const save = Effect.fnUntraced(function*(server: Server.Server, id: string, artifact: Artifact, file: string, force: boolean) {
  const draft = join(dirname(file), `.slipway-${randomUUID()}.part`)
  const isReserved = !force
  if (isReserved) yield* reserve(file)
  const handle = yield* Effect.tryPromise({ try: () => open(draft, "wx", 0o600), catch: cannotWrite(file) })
  const writing = server.transfer(async (signal) => {
    const hash = createHash("sha256")
    for await (const bytes of bytesOf(server, id, artifact, signal)) {
      hash.update(bytes)
      await handle.writeFile(bytes)
    }
    return hash.digest("hex") === artifact.sha256
  })
  yield* writing.pipe(
    Effect.ensuring(Effect.promise(() => handle.close())),
    Effect.filterOrFail((isSame) => isSame, () => unclear(CHANGED)),
    Effect.andThen(Effect.tryPromise({ try: () => rename(draft, file), catch: cannotWrite(file) })),
    Effect.onError(() =>
      Effect.promise(async () => {
        await rm(draft, { force: true })
        if (isReserved) await rm(file, { force: true })
      })
    )
  )
})

/** Writes the bytes to standard output: as they are for a program, and only text, with its controls shown by name, to a terminal. */
const show = Effect.fnUntraced(function*(server: Server.Server, id: string, artifact: Artifact) {
  if (!process.stdout.isTTY) {
    return yield* server.transfer(async (signal) => {
      for await (const bytes of bytesOf(server, id, artifact, signal)) await Stdout.write(bytes)
    })
  }
  if (artifact.mediaType !== "text/plain") return yield* unclear(`${artifact.name} is not text. Save it with --output FILE.`)
  const text = yield* server.transfer(async (signal) => await (await server.client.getArtifact(id, artifact.name, { signal })).text())
  yield* Effect.promise(() => Stdout.write(visible(text)))
})

const list = (artifacts: ReadonlyArray<Artifact>, leftOut: string | null): string => {
  const rows = artifacts.map(({ createdAt, mediaType, name, size }) => [name, String(size), mediaType, createdAt])
  const found = artifacts.length === 0 ? "No artifacts." : columns([["NAME", "BYTES", "TYPE", "STORED"], ...rows])
  return leftOut === null ? found : `${found}\n${leftOut}`
}

const output = Flag.String("output").pipe(
  Flag.withAlias("o"),
  Flag.withDescription("File to write; default: the artifact's name in this folder; - is standard output"),
  Flag.optional
)

const force = Flag.Boolean("force").pipe(Flag.withDescription("Replace an existing file"), Flag.withDefault(false))

export const artifacts = Command.make("artifacts", {
  id: Server.id,
  name: Argument.String("name").pipe(Argument.withDescription("Download this artifact"), Argument.optional),
  output,
  force,
  json,
  url: Server.url
}, ({ force, id: given, json, name, output, url }) =>
  Server.interruptible(Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const { data, leftOut } = yield* server.call((signal) => server.client.listArtifacts(id, { signal }))
    if (Option.isNone(name)) return yield* print(json, { data, leftOut }, () => list(data, leftOut))
    const artifact = data.find((one) => one.name === name.value)
    if (artifact === undefined) {
      const detail = `${id} has no artifact ${name.value}. See: slipway artifacts ${id}`
      return yield* new Server.CommandFailed({ detail, exitCode: Server.ExitCode.notFound })
    }
    if (Option.contains(output, "-")) return yield* show(server, id, artifact)
    const file = Option.isSome(output) ? output.value : yield* ownName(artifact.name)
    yield* save(server, id, artifact, file, force)
    yield* print(json, { ...artifact, file }, () => `Saved ${file} (${artifact.size} bytes).`)
  }))).pipe(
    Command.withDescription(
      "List the files that the agent left in $SLIPWAY_ARTIFACTS, or download one. Names and contents come from the agent: look before " +
        `you open them.\n\n${Server.exitCodesText}`
    ),
    Command.withShortDescription("List or download the artifacts of a sandbox"),
    Command.withExamples([
      { command: "slipway artifacts c_abcdefgh2345", description: "List them" },
      { command: "slipway artifacts c_abcdefgh2345 report.md -o -", description: "Show one" },
      { command: "slipway artifacts c_abcdefgh2345 shots/cart.png -o cart.png", description: "Save one" }
    ])
  )
