/**
 * Secrets are planted wherever one comes into the service, which does all it can do and fails as it can fail: none of
 * them is in a line of its log, in what it prints, in its files, or in what it starts.
 */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { refuse } from "@slipway/github/testing/Routes"
import * as Database from "@slipway/postgres/Database"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { connect, createServer, type Socket } from "node:net"
import { folder, gitHubApp, run, serve, until } from "../../commands/SlipwayProcess.ts"
import { filesBelow, foundIn, inPercents, visibleOf } from "./Leaks.ts"

const canary = (what: string) => `${what}canary${randomBytes(12).toString("hex")}`

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const token = () => Array.from(randomBytes(43), (byte) => BASE62.charAt(byte % 62)).join("")

/** Postgres's answer to a refused connection (protocol 3.0, ErrorResponse). */
const errorResponse = (code: string, message: string): Buffer => {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(fields.length + 4)
  return Buffer.concat([Buffer.from("E"), length, fields])
}

/** A way to the database that can be cut. Who then connects is told a refusal, or nothing when it is empty; `null`: goes through. */
const wayTo = (databaseUrl: string) =>
  Effect.gen(function*() {
    const url = new URL(databaseUrl)
    const host = url.searchParams.get("host") ?? url.hostname
    const port = Number(url.port || 5432)
    const sockets = new Set<Socket>()
    let refusal: string | null = null
    const server = createServer((inner) => {
      sockets.add(inner)
      inner.on("error", () => {})
      if (refusal !== null) {
        const said = refusal === "" ? null : errorResponse("57P03", refusal)
        inner.once("data", () => said === null ? inner.destroy() : inner.end(said))
        return
      }
      const outer = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
      sockets.add(outer)
      outer.on("error", () => {})
      for (const [one, other] of [[inner, outer], [outer, inner]] as const) one.on("close", () => other.destroy())
      inner.pipe(outer).pipe(inner)
    })
    const cut = (said: string | null) => {
      refusal = said
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    }
    yield* Effect.acquireRelease(
      Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()))),
      () =>
        Effect.sync(() => {
          cut(null)
          server.close()
        })
    )
    const bound = server.address()
    assert(typeof bound === "object" && bound !== null)
    return { host: `127.0.0.1:${bound.port}`, cut }
  })

/** An account that may do with the tables what their owner may. */
const account = (databaseUrl: string, password: string) =>
  Effect.gen(function*() {
    const name = `canary_${randomBytes(6).toString("hex")}`
    const onDatabase = <A, E>(use: (sql: SqlClient.SqlClient) => Effect.Effect<A, E>) =>
      Effect.flatMap(SqlClient.SqlClient, use).pipe(Effect.provide(Database.layer({ url: Redacted.make(databaseUrl) })), Effect.orDie)
    yield* Effect.acquireRelease(
      onDatabase((sql) =>
        Effect.forEach([
          `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`,
          // To remove it again.
          `GRANT ${name} TO CURRENT_USER`,
          ...["SCHEMA slipway", ...["TABLES", "SEQUENCES", "ROUTINES"].map((kind) => `ALL ${kind} IN SCHEMA slipway`)].map((what) =>
            `GRANT ALL ON ${what} TO ${name}`
          )
        ], (statement) => sql`${sql.literal(statement)}`)
      ),
      () => onDatabase((sql) => Effect.andThen(sql`DROP OWNED BY ${sql(name)}`, sql`DROP ROLE ${sql(name)}`))
    )
    return name
  })

const Line = Schema.Struct({
  time: Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)),
  level: Schema.Literals(["debug", "info", "warning", "error", "fatal"]),
  message: Schema.String,
  requestId: Schema.optionalKey(Schema.String),
  sandboxId: Schema.optionalKey(Schema.String),
  traceId: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^[0-9a-f]{32}$/u))),
  spanId: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^[0-9a-f]{16}$/u))),
  error: Schema.optionalKey(
    Schema.StructWithRest(Schema.Struct({ message: Schema.String }), [Schema.Record(Schema.String, Schema.Unknown)])
  )
})
const linesOf = (logs: string) =>
  logs.split("\n").filter((line) => line !== "").map((line) => Schema.decodeUnknownSync(Schema.fromJsonString(Line))(line))

const linux = process.platform === "linux" ? it.live : it.live.skip
linux("no secret that comes into the service leaves it by its log, its files or what it starts", () =>
  Effect.gen(function*() {
    const [data, keys] = [yield* folder, yield* folder]
    const databaseUrl = yield* TestPostgres.database(Migrations.layer)
    const way = yield* wayTo(databaseUrl)
    const github = yield* GitHubServer.start()
    github.app.install("Acme")
    yield* github.repository("Acme/Shop", { "README.md": "# Shop\n" })

    const password = canary("password")
    const planted = {
      modelKey: `sk-${canary("model")}`,
      password,
      webhookSecret: canary("webhook"),
      privateKey: github.app.privateKey.split("\n")[3] ?? "",
      malformedKey: `sbx_live_${canary("malformed")}`,
      unknownKey: canary("unknown"),
      session: token(),
      signInLink: token()
    }
    /** People's text, which is theirs to read but must not be in the log. */
    const content = {
      query: canary("query"),
      path: canary("path"),
      body: canary("body"),
      idempotency: canary("idempotency"),
      metadata: canary("metadata"),
      prompt: canary("prompt"),
      agent: canary("agent"),
      agentToken: token(),
      userAgent: canary("agent"),
      message: canary("message")
    }
    const database = new URL(databaseUrl)
    const server = yield* serve(data, {
      SLIPWAY_LOG_LEVEL: "debug",
      // The disks of sandboxes are files that are looked through as well.
      SLIPWAY_SANDBOX_DISK_MIB: "64",
      DATABASE_URL: `postgres://${yield* account(databaseUrl, password)}:${password}@${way.host}${database.pathname}?sslmode=disable`,
      OPENAI_API_KEY: planted.modelKey,
      ...gitHubApp(keys, github),
      SLIPWAY_GITHUB_WEBHOOK_SECRET: planted.webhookSecret
    })
    const key = server.key ?? ""
    const gone = JSON.parse((yield* run(keys, ["keys", "create", "--json"], { DATABASE_URL: databaseUrl })).stdout)
    yield* run(keys, ["keys", "revoke", gone.id], { DATABASE_URL: databaseUrl })
    const credentials = { ...planted, key, revokedKey: String(gone.key) }

    const seen: Array<ReturnType<typeof visibleOf>> = []
    // While git, or its caller, waits for GitHub's answer.
    github.watch(() => seen.push(visibleOf(server.pid)))

    const call = (method: string, address: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) =>
      Effect.promise(async () => {
        const response = await fetch(server.url + address, {
          method,
          headers: {
            authorization: `Bearer ${key}`,
            "user-agent": content.userAgent,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...headers
          },
          ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
        })
        const text = await response.text()
        return {
          status: response.status,
          requestId: response.headers.get("x-request-id") ?? "",
          said: text.startsWith("{") ? JSON.parse(text) : text
        }
      })
    const api = "/api/public/v1"

    // Refused requests, with each form of a key and a session.
    const basic = `Basic ${Buffer.from(`user:${credentials.revokedKey}`).toString("base64")}`
    for (
      const authorization of [`Bearer ${planted.malformedKey}`, `Bearer ${planted.unknownKey}`, `Bearer ${credentials.revokedKey}`,
        planted.unknownKey, basic, key]
    ) {
      assert.strictEqual((yield* call("GET", `${api}/sandboxes`, undefined, { authorization })).status, 401)
    }
    for (
      const address of [
        `${api}/sandboxes?cursor=${content.query}&key=${key}`,
        `${api}/sandboxes/${content.path}`,
        `/${content.path}?token=${planted.signInLink}`,
        `${api}/%ff${content.path}`,
        `/sign-in?token=${planted.signInLink}`
      ]
    ) {
      yield* call("GET", address, undefined, {
        cookie: `__Host-slipway_session=${planted.session}; other=${planted.session}`,
        traceparent: content.query
      })
    }
    yield* call("GET", `${api}/sandboxes`, undefined, { authorization: "", cookie: `__Host-slipway_session=${planted.session}` })
    yield* call("POST", `${api}/sandboxes`, `{"repos": ["${content.body}`, { "idempotency-key": content.idempotency })
    yield* call("POST", `${api}/sandboxes`, {
      repos: [{ fullName: content.body }],
      prompt: [content.prompt],
      [content.body]: planted.modelKey
    })
    yield* call("POST", "/hooks/source-host", { about: content.body }, { "x-hub-signature-256": `sha256=${planted.webhookSecret}` })
    yield* call("POST", "/hooks/source-host", "x".repeat(2_000_000) + content.body)

    // An agent at work that says what it should not, and dies of it.
    const made = yield* call("POST", `${api}/sandboxes`, {
      repos: [{ fullName: "acme/shop" }],
      title: "Canaries",
      metadata: { note: content.metadata },
      prompt: `${content.prompt} [[write path=a.txt content=one]] ` +
        `[[shell echo token=${content.agentToken}; echo Bearer ${content.agent} >&2; sleep 1]] [[crash]]`
    }, { "idempotency-key": content.idempotency })
    assert.strictEqual(made.status, 201, JSON.stringify(made.said))
    const sandbox = `${api}/sandboxes/${made.said.id}`
    const events = Effect.map(call("GET", `${sandbox}/events`), ({ said }): ReadonlyArray<{ readonly type: string }> => said.data)
    yield* until(events, (all) => all.some(({ type }) => type === "turn.started"))
    seen.push(visibleOf(server.pid))
    yield* until(events, (all) => all.some(({ type }) => type === "turn.completed"))
    yield* call("POST", `${sandbox}/messages`, { content: content.message })

    // GitHub repeats what it was sent, and is told of something it must not be told of.
    github.strike({
      method: "POST",
      url: /\/pulls$/u,
      outcome: ({ headers }) => refuse(500, `You sent ${headers.authorization} and ${planted.webhookSecret}`)
    })
    yield* call("POST", `${sandbox}/pull-request`, {})

    // The database goes, and who comes back is told secrets.
    const traceId = "0af7651916cd43dd8448eb211c80319c"
    const forms = [password, Buffer.from(password).toString("base64"), inPercents(password), `postgres://u:${password}@db/x`, key,
      `Bearer ${planted.unknownKey}`, planted.modelKey]
    const list = call("GET", `${api}/sandboxes`, undefined, { traceparent: `00-${traceId}-b7ad6b7169203331-01` })
    way.cut(`no entry with ${forms.join(" or ")}`)
    yield* until(list, ({ status }) => status >= 500)
    yield* until(Effect.sync(server.logs), (logs) => logs.includes("no entry with"))
    way.cut("")
    const refused = yield* until(list, ({ status }) => status === 503)
    yield* until(Effect.sync(server.logs), (logs) => logs.includes(refused.requestId) && logs.endsWith("\n"))
    way.cut(null)
    yield* until(call("GET", `${api}/sandboxes`), ({ status }) => status === 200)

    // Each line is an entry, and the request's warning says whose it is.
    const told = linesOf(server.logs()).filter(({ requestId }) => requestId === refused.requestId)
    assert.deepInclude(told.map(({ level, message, traceId }) => ({ level, message, traceId })), {
      level: "warning",
      message: "the store is not available",
      traceId
    })
    assert.isTrue(told.every(({ spanId }) => spanId !== undefined && spanId === told[0]?.spanId && spanId !== "b7ad6b7169203331"))
    const ofSandbox = linesOf(server.logs()).find(({ message, sandboxId }) => sandboxId === made.said.id && message === "agent ended")
    assert.strictEqual(ofSandbox?.traceId?.length, 32)
    // The hidden text was there to be hidden.
    assert.match(
      server.logs().replaceAll("[redacted]", "…"),
      /no entry with … or …[\w+/=]{0,3} or … or postgres:\/\/…@db\/x or … or Bearer … or …/u
    )

    // The key that is made at the first start is shown once, to the person who starts it.
    const printed = server.output().replace(`API key    ${key}`, "")
    const everywhere = { ...credentials, ...Object.fromEntries(github.app.issued.map((issued, i) => [`GitHub token ${i}`, issued])) }
    assert.isAbove(github.app.issued.length, 0)
    assert.deepStrictEqual(foundIn(printed, { ...everywhere, ...content }), [], "logs and output")
    assert.deepStrictEqual(foundIn(filesBelow(data), everywhere), [], "files")
    seen.push(visibleOf(server.pid))
    assert.isTrue(seen.some(({ environments }) => environments !== "") && seen.some(({ ofGit }) => ofGit !== ""))
    for (const { commandLines, environments, ofGit } of seen) {
      assert.deepStrictEqual(foundIn(commandLines, everywhere), [], "command lines")
      assert.deepStrictEqual(foundIn(environments, everywhere), [], "environments")
      assert.deepStrictEqual(foundIn(ofGit, credentials), [], "environments of git")
    }

    // The search can find each secret: in its intended place, and in each form.
    assert.include(foundIn(server.output(), credentials), "key")
    assert.includeMembers([...foundIn(readFileSync(`/proc/${server.pid}/environ`, "latin1"), credentials)], ["modelKey", "password",
      "webhookSecret"])
    assert.include(foundIn(filesBelow(keys), credentials), "privateKey")
    assert.include(foundIn(filesBelow(data), content), "prompt")
    const [before, after] = ["{\"n\":1,\"text\":\"", "\"}"]
    for (
      const encode of [
        (text: string) => text,
        (text: string) => Buffer.from(text).toString("base64"),
        encodeURIComponent,
        inPercents,
        (text: string) => inPercents(text).toUpperCase()
      ]
    ) assert.deepStrictEqual(foundIn(encode(before + password + after), credentials), ["password"])
    assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    linesOf(server.logs())
  }).pipe(Effect.scoped))
