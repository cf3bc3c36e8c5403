/**
 * Publishing to GitHub with everything watched: neither the App's key nor its JWTs nor a token is anywhere but in what
 * GitHub gets and in the environment of the one git process that sends it.
 */
import { assert, it } from "@effect/vitest"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { refuse } from "@slipway/github/testing/Routes"
import { Effect, Layer, Logger, References, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { publishChanges } from "../../src/publish/PublishChanges.ts"
import { publishOnce, REPO } from "./Worker.ts"
import * as World from "./World.ts"

/** The part of a secret that is in any base64 text that holds it, at any offset. */
const inBase64 = (secret: string): ReadonlyArray<string> =>
  [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(" ".repeat(offset) + secret).toString("base64").replace(/=+$/u, "")
    return encoded.slice(offset === 0 ? 0 : 4, -2)
  })

const inPercents = (secret: string): string => [...Buffer.from(secret)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("")

/** Whether a text holds one of the secrets, plain or encoded. */
const searchFor = (secrets: ReadonlySet<string>) => {
  const needles = [...secrets].flatMap((
    secret
  ) => [secret, ...inBase64(secret), encodeURIComponent(secret), inPercents(secret), inPercents(secret).toUpperCase()])
  return (text: string): boolean => needles.some((needle) => text.includes(needle))
}

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [`${entry.name}\n${readFileSync(join(entry.parentPath, entry.name), "latin1")}`] : []
  )

/** Command lines of all processes, and environments of all but git's: that is where a token travels. */
const processes = (): ReadonlyArray<string> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((id) => {
    try {
      const commandLine = readFileSync(`/proc/${id}/cmdline`, "latin1")
      const isGit = /^(?:git|\S*\/git)[\0-]/u.test(commandLine)
      return [commandLine, ...(isGit ? [] : [readFileSync(`/proc/${id}/environ`, "latin1")])]
    } catch {
      // gone
      return []
    }
  })

const rows = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<
    { readonly name: string }
  >`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'slipway'`
  return (yield* Effect.forEach(tables, ({ name }) => sql<{ readonly row: string }>`SELECT t::text AS row FROM ${sql(name)} t`)).flat().map(
    ({ row }) => row
  )
})

/** A script that looks around as an agent, before a publication and after it. */
const LOOK = `
look() { env; find "$HOME" "$TMPDIR" -type f -exec cat {} +; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline; }
look > App/before.txt
read -r line
look > App/after.txt
`

const linux = process.platform === "linux" ? it.live : it.live.skip
linux("neither a key nor a token of GitHub is in a file, process, log, event, row or answer", () =>
  Effect.gen(function*() {
    const { grantId } = yield* World.Database
    const origin = yield* World.gitHubOrigin()
    const { app } = origin.server
    const { directory, id, lease } = yield* (yield* World.sandboxes(origin)).next
    const logs: Array<string> = []
    const seen: Array<string> = []
    const gitOf = new Set<string>()
    origin.server.watch(({ method, url }) => {
      // While git, or its caller, waits for this answer.
      seen.push(...processes())
      if (/\.git\//u.test(url)) gitOf.add(`${method} ${url.split("/").at(-1)}`)
    })

    yield* Effect.gen(function*() {
      const publishing = yield* Publishing
      const host = yield* SandboxHost
      const sql = yield* SqlClient.SqlClient
      const box = yield* host.provision({ sandboxId: id, fence: 1 })
      const by = {
        credential: { _tag: "Key" as const, keyId: "k" },
        grantId,
        organizationId: "0197f1a0-0000-7000-8000-0000000000a1",
        userId: "u",
        scopes: new Set<never>(),
        test: false
      }
      const answers: Array<string> = []

      // Three times: refused with what was sent, then a first and a later publication.
      origin.server.strike({ method: "POST", url: /\/pulls$/u, outcome: ({ headers }) => refuse(500, `You sent ${headers.authorization}`) })
      for (const what of ["refused", "first", "later"]) {
        World.work(World.treeOf(directory, id), what)
        yield* World.ask(id)
        yield* publishOnce(lease, grantId)
        answers.push(JSON.stringify(yield* publishing.status(by, id, REPO)))
      }
      assert.deepStrictEqual((yield* World.updates(id)).map(({ data }) => data.action_state), ["publishing", "failed", "publishing", "idle",
        "updating", "idle"])

      // An agent is at work beside a publication.
      const agent = yield* box.spawn({ command: "sh", args: ["-c", LOOK], env: {} })
      World.work(World.treeOf(directory, id), "beside")
      yield* World.ask(id)
      // Publishing takes the box over, as a new worker does, so here it goes on without the agent's commits.
      yield* publishChanges(lease, yield* SandboxStore.use((store) => store.find({ grantId, id })), REPO)
      yield* agent.endInput
      yield* Stream.runDrain(agent.stdout)

      const everywhere = Effect.gen(function*() {
        return {
          files: filesBelow(directory),
          processes: [...seen, ...processes()],
          logs,
          rows: yield* rows,
          events: (yield* SandboxStore.use((store) => store.log(id, 0, 1000))).map(({ wire }) => wire),
          answers,
          urls: origin.server.requests.map(({ url }) => url)
        }
      })
      const authorizations = origin.server.requests.flatMap(({ headers }) => headers.authorization ?? [])
      const secrets = new Set([
        ...app.issued,
        ...authorizations.flatMap((value) => value.split(" ").slice(1)),
        ...app.privateKey.split("\n").filter((line) => line.length > 20 && !line.startsWith("--"))
      ])
      const holds = searchFor(secrets)
      const places = yield* everywhere
      for (const [where, texts] of Object.entries(places)) {
        assert.isAbove(texts.length, 0, where)
        assert.deepStrictEqual(texts.filter(holds).map((text) => text.slice(0, 200)), [], where)
      }

      // It was looked for where it could have been: git was at work, and the agent looked around.
      assert.deepStrictEqual(new Set(authorizations.map((value) => value.split(" ")[0])), new Set(["bearer", "token", "Basic"]))
      assert.includeMembers([...gitOf], ["GET refs?service=git-receive-pack", "POST git-receive-pack"])
      assert.isTrue(seen.some((text) => /remote-http/u.test(text)))
      assert.isTrue(places.files.some((text) => text.startsWith("after.txt\n") && text.includes("SANDBOX_MARK=")))
      assert.include(logs.join("\n"), "You sent")

      // And it would have been found, in each place and each form.
      const [token = ""] = app.issued
      const forms = [token, Buffer.from(`x-access-token:${token}`).toString("base64"), Buffer.from(`token ${token}`).toString("base64"),
        inPercents(token)]
      for (const form of forms) {
        yield* Effect.scoped(Effect.gen(function*() {
          writeFileSync(join(directory, "planted"), form)
          yield* box.spawn({ command: "sleep", args: ["1000"], env: { PLANTED: form } })
          yield* Effect.logInfo(form)
          yield* sql`UPDATE sandboxes SET title = ${form} WHERE id = ${id}`
          const now = yield* everywhere
          for (const texts of [now.files, processes(), now.logs.slice(-1), now.rows]) assert.isTrue(texts.some(holds), form)
        }))
      }
      assert.isTrue(holds(encodeURIComponent(app.privateKey)) && holds(Buffer.from(app.privateKey).toString("base64")))
    }).pipe(
      Effect.scoped,
      Effect.provide(
        World.worker({ directory, ...origin.settings }, origin.privateKey).pipe(Layer.provideMerge(Layer.merge(
          Logger.layer([Logger.map(Logger.formatJson, (line) => logs.push(line))]),
          Layer.succeed(References.MinimumLogLevel, "All")
        )))
      )
    )
  }).pipe(Effect.provide(World.Database.layer)))
