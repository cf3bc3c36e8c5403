/**
 * The rules that every `McpServerStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh grants make it repeatable on one database.
 */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { MAX_MCP_SERVERS, McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import type { McpCommandSettings, McpServerSettings } from "@slipway/domain/mcp/schema/McpServer"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-30T06:10:00.123Z")
const later = DateTime.add(at, { minutes: 1 })
const SHOP = "Acme/shop"
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"
const CANARY = "Bearer canary-\"\\é\u{1F680}-7Qm2"

const OPEN: McpServerSettings = {
  url: "https://docs.example.com/mcp",
  authentication: { type: "none" },
  onByDefault: true,
  tools: {}
}
const SECURED: McpServerSettings = {
  url: "https://wiki.example.com/mcp?a=1",
  authentication: { type: "header", name: "Authorization" },
  onByDefault: false,
  tools: { delete_page: "deny", "a/b.c-d": "ask", read: "allow" }
}

const OAUTH: McpServerSettings = {
  url: "https://wiki.example.com/mcp",
  authentication: { type: "oauth" },
  onByDefault: true,
  tools: {}
}

const COMMAND: McpCommandSettings = {
  command: "node",
  arguments: ["tools/mcp.js", "", "--a b", "$HOME \"é\u{1F680}"],
  variables: ["SHOP_KEY", "log_level"],
  onByDefault: true,
  tools: { delete_page: "deny" }
}
const VALUES = JSON.stringify({ SHOP_KEY: "canary-7Qm2", log_level: "a\nb" })

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant.id
})
const set = (grantId: string, settings: McpServerSettings, credential: string | null = null, name = "wiki", repo = SHOP, when = at) =>
  McpServerStore.use((store) => store.set({ grantId, repo, name }, settings, credential === null ? null : Redacted.make(credential), when))
const list = (grantId: string, repo: string | null = null) => McpServerStore.use((store) => store.list(grantId, repo))
const remove = (grantId: string, name = "wiki", repo = SHOP) => McpServerStore.use((store) => store.remove({ grantId, repo, name }, at))
const reveal = (grantId: string, repos: ReadonlyArray<string> = [SHOP]) =>
  Effect.map(
    McpServerStore.use((store) => store.reveal(grantId, repos)),
    (all) => all.map(({ credential, name, repo }) => [repo, name, credential === null ? null : Redacted.value(credential)])
  )

type Services = McpServerStore | Access | AuditLog | Ids

const settingsAndCredentials = (it: Writer<Services>) => {
  it.effect("gives a server as it was set, with its times, and its credential to workers alone", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      assert.deepStrictEqual([yield* list(grantId), yield* reveal(grantId)], [[], []])
      const record = { repo: SHOP, name: "wiki", settings: SECURED, hasCredential: true, connection: null, createdAt: at, setAt: at }
      assert.deepStrictEqual(yield* set(grantId, SECURED, CANARY), record)
      assert.deepStrictEqual(yield* list(grantId), [record])
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", CANARY]])
    }))

  it.effect("replaces settings, and keeps the time of the first setting", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, SECURED, CANARY)
      const changed = { ...SECURED, tools: {}, onByDefault: true }
      yield* set(grantId, changed, "another credential", "wiki", "acme/SHOP", later)
      assert.deepStrictEqual(yield* list(grantId), [
        { repo: "acme/SHOP", name: "wiki", settings: changed, hasCredential: true, connection: null, createdAt: at, setAt: later }
      ])
      assert.deepStrictEqual(yield* reveal(grantId), [["acme/SHOP", "wiki", "another credential"]])
    }))

  it.effect("keeps a credential for the same address and header, and gives it to no other", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, SECURED, CANARY)
      yield* set(grantId, { ...SECURED, tools: {}, authentication: { type: "header", name: "authorization" } })
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", CANARY]])
      const others: ReadonlyArray<McpServerSettings> = [
        { ...SECURED, url: "https://evil.example.com/mcp" },
        { ...SECURED, authentication: { type: "header", name: "X-Key" } }
      ]
      for (const other of others) assert.strictEqual((yield* Effect.flip(set(grantId, other)))._tag, "McpServerRefused")
      assert.deepStrictEqual((yield* list(grantId)).map(({ settings }) => settings), [{
        ...SECURED,
        authentication: { type: "header", name: "authorization" },
        tools: {}
      }])
      assert.deepInclude(yield* Effect.flip(set(grantId, SECURED, null, "new")), { reason: "credential" })
    }))

  it.effect("forgets the credential of a server that needs none", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, SECURED, CANARY)
      assert.strictEqual((yield* set(grantId, { ...SECURED, authentication: { type: "none" } })).hasCredential, false)
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", null]])
      assert.deepInclude(yield* Effect.flip(set(grantId, SECURED)), { reason: "credential" })
    }))
}

const commands = (it: Writer<Services>) => {
  it.effect("gives a command as it was set, and the values of its variables to workers alone", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const record = { repo: SHOP, name: "wiki", settings: COMMAND, hasCredential: true, connection: null, createdAt: at, setAt: at }
      assert.deepStrictEqual(yield* set(grantId, COMMAND, VALUES), record)
      assert.deepStrictEqual(yield* list(grantId), [record])
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", VALUES]])
    }))

  it.effect("keeps values for variables of the same names, in any order, and for no others", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, COMMAND, VALUES)
      yield* set(grantId, { ...COMMAND, command: "deno", arguments: [], variables: [...COMMAND.variables].toReversed() })
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", VALUES]])
      for (const variables of [["SHOP_KEY"], [...COMMAND.variables, "MORE"], ["SHOP_KEY", "OTHER"]]) {
        assert.deepInclude(yield* Effect.flip(set(grantId, { ...COMMAND, variables })), { reason: "credential" })
      }
      assert.strictEqual((yield* set(grantId, { ...COMMAND, variables: [] })).hasCredential, false)
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", null]])
      assert.deepInclude(yield* Effect.flip(set(grantId, COMMAND)), { reason: "credential" })
    }))

  it.effect("keeps no secret where a server with an address becomes a command, and the other way round", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, SECURED, CANARY)
      assert.deepInclude(yield* Effect.flip(set(grantId, COMMAND)), { reason: "credential" })
      yield* set(grantId, { ...COMMAND, variables: [] })
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", null]])
      yield* set(grantId, COMMAND, VALUES)
      assert.deepInclude(yield* Effect.flip(set(grantId, SECURED)), { reason: "credential" })
      yield* set(grantId, OPEN)
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", null]])
      assert.deepStrictEqual((yield* list(grantId)).map(({ settings }) => settings), [OPEN])
    }))

  it.effect("connects no command", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, { ...COMMAND, variables: [] })
      const connect = McpServerStore.use((store) =>
        store.connect({ grantId, repo: SHOP, name: "wiki" }, { ...COMMAND, variables: [] }, Redacted.make("tokens"), at)
      )
      assert.strictEqual((yield* Effect.flip(connect))._tag, "McpServerNotFound")
    }))
}

const lists = (it: Writer<Services>) => {
  it.effect("lists in order of repository, in any case of letters, and name; or one repository", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      for (const [name, repo] of [["b", "b/b"], ["z", "A/a"], ["a", "a/A"], ["a", "B/a"]] as const) {
        yield* set(grantId, OPEN, null, name, repo)
      }
      assert.deepStrictEqual((yield* list(grantId)).map(({ name, repo }) => `${repo} ${name}`), ["a/A a", "A/a z", "B/a a", "b/b b"])
      assert.deepStrictEqual((yield* list(grantId, "a/a")).map(({ name }) => name), ["a", "z"])
      assert.deepStrictEqual(yield* reveal(grantId, ["B/B", "b/A"]), [["B/a", "a", null], ["b/b", "b", null]])
      assert.deepStrictEqual(yield* reveal(grantId, []), [])
    }))

  it.effect("keeps the servers of one grant from another", () =>
    Effect.gen(function*() {
      const [mine, theirs] = [yield* newGrant, yield* newGrant]
      yield* set(mine, SECURED, CANARY)
      assert.deepStrictEqual([yield* list(theirs), yield* reveal(theirs)], [[], []])
      assert.strictEqual((yield* Effect.flip(remove(theirs)))._tag, "McpServerNotFound")
      assert.lengthOf(yield* list(mine), 1)
    }))

  it.effect("removes one by its name, and no other", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, OPEN)
      yield* set(grantId, OPEN, null, "docs")
      yield* remove(grantId, "wiki", "ACME/SHOP")
      assert.deepStrictEqual((yield* list(grantId)).map(({ name }) => name), ["docs"])
      assert.strictEqual((yield* Effect.flip(remove(grantId)))._tag, "McpServerNotFound")
    }))

  it.effect("refuses a grant that is unknown or revoked, whose servers are gone", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, SECURED, CANARY)
      yield* (yield* Access).revokeGrant(grantId)
      for (const grant of [grantId, absent]) assert.deepInclude(yield* Effect.flip(set(grant, OPEN)), { reason: "grant" })
      assert.deepStrictEqual([yield* list(grantId), yield* reveal(grantId)], [[], []])
    }))

  it.effect("holds a repository to its most servers, also under changes at the same time", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* Effect.forEach(Array.from({ length: MAX_MCP_SERVERS - 1 }, (_, i) => `s${i}`), (name) => set(grantId, OPEN, null, name))
      const both = yield* Effect.forEach(["one", "two"], (name) => Effect.result(set(grantId, OPEN, null, name)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(both.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
      // A server that is there can be changed, another repository has room, and a removed server makes some.
      yield* set(grantId, { ...OPEN, onByDefault: false }, null, "s0")
      yield* set(grantId, OPEN, null, "one", "acme/docs")
      yield* remove(grantId, "s1")
      yield* set(grantId, OPEN, null, "three")
      assert.lengthOf(yield* list(grantId, SHOP), MAX_MCP_SERVERS)
    }))

  it.effect("appends each change to the audit log, and nothing where nothing changed", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const entries = yield* appended(Effect.gen(function*() {
        yield* set(grantId, SECURED, CANARY)
        yield* Effect.ignore(set(grantId, SECURED, null, "new"))
        yield* remove(grantId)
        yield* Effect.ignore(remove(grantId))
        yield* Effect.ignore(set(absent, OPEN))
      }))
      const subjects = { grantId, repo: SHOP, mcpServer: "wiki" }
      assert.deepStrictEqual(entries, [{ action: "mcp_server.set", at, subjects }, { action: "mcp_server.removed", at, subjects }])
    }))
}

const keyOf = (grantId: string, name = "wiki", repo = SHOP) => ({ grantId, repo, name })
const begin = (grantId: string, state: string, text: string, until = later) =>
  McpServerStore.use((store) => store.beginConnection(keyOf(grantId), { state, pending: Redacted.make(text), until }))
const take = (grantId: string, state: string, when = at) =>
  Effect.map(
    McpServerStore.use((store) => store.takeConnecting(grantId, state, when)),
    (taken) => taken === null ? null : { ...taken, pending: Redacted.value(taken.pending) }
  )
const connect = (grantId: string, tokens: string, settings = OAUTH, when = at) =>
  McpServerStore.use((store) => store.connect(keyOf(grantId), settings, Redacted.make(tokens), when))
const connection = (grantId: string) =>
  Effect.map(
    McpServerStore.use((store) => store.connection(keyOf(grantId))),
    (found) => found === null ? null : { ...found, tokens: Redacted.value(found.tokens) }
  )
const claim = (grantId: string, version: number, when = at, until = later) =>
  McpServerStore.use((store) => store.claimRenewal(keyOf(grantId), version, when, until))
const endRenewal = (grantId: string, version: number, renewed: { readonly tokens: string } | { readonly problem: string } | null) =>
  McpServerStore.use((store) =>
    store.endRenewal(
      keyOf(grantId),
      version,
      renewed !== null && "tokens" in renewed ? { tokens: Redacted.make(renewed.tokens) } : renewed
    )
  )
/** A connected server of a new grant, and the version of its connection. */
const connected = Effect.gen(function*() {
  const grantId = yield* newGrant
  yield* set(grantId, OAUTH)
  yield* connect(grantId, "first")
  return { grantId, version: (yield* connection(grantId))?.version ?? assert.fail("it is not connected") }
})

/** How connections by OAuth are made, and end. */
const connections = (it: Writer<Services>) => {
  it.effect("takes what was begun once, for its grant, and not after its time", () =>
    Effect.gen(function*() {
      const [grantId, theirs] = [yield* newGrant, yield* newGrant]
      assert.strictEqual((yield* Effect.flip(begin(grantId, "state", "x")))._tag, "McpServerNotFound")
      yield* set(grantId, OAUTH)
      yield* begin(grantId, "earlier", "x")
      yield* begin(grantId, "state", CANARY)
      assert.deepStrictEqual([yield* take(theirs, "state"), yield* take(grantId, "other"), yield* take(grantId, "earlier")], [null, null,
        null])
      assert.deepStrictEqual(yield* take(grantId, "state"), { server: keyOf(grantId), settings: OAUTH, pending: CANARY })
      assert.isNull(yield* take(grantId, "state"))
      yield* begin(grantId, "state", "x")
      assert.isNull(yield* take(grantId, "state", later))
    }))

  it.effect("gives what was begun to exactly one of two that come back at the same time", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      yield* set(grantId, OAUTH)
      yield* begin(grantId, "state", "x")
      const both = yield* Effect.all([take(grantId, "state"), take(grantId, "state")], { concurrency: "unbounded" })
      assert.lengthOf(both.filter((taken) => taken !== null), 1)
    }))

  it.effect("connects a server, tells when, and gives the tokens to workers alone", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      assert.strictEqual((yield* Effect.flip(connect(grantId, "x")))._tag, "McpServerNotFound")
      assert.isNull((yield* set(grantId, OAUTH)).connection)
      assert.isNull(yield* connection(grantId))
      const entries = yield* appended(connect(grantId, CANARY))
      assert.deepStrictEqual(entries, [
        { action: "mcp_server.connected", at, subjects: { grantId, repo: SHOP, mcpServer: "wiki" } }
      ])
      assert.deepStrictEqual((yield* list(grantId)).map((server) => server.connection), [{ connectedAt: at, problem: null }])
      assert.deepInclude(yield* connection(grantId), { tokens: CANARY, connectedAt: at, problem: null })
      assert.notInclude(JSON.stringify(yield* list(grantId)), "7Qm2")
    }))

  it.effect("keeps a connection with the same address, client and scopes, and ends it with others", () =>
    Effect.gen(function*() {
      const { grantId } = yield* connected
      yield* set(grantId, { ...OAUTH, tools: { read: "allow" }, onByDefault: false })
      assert.strictEqual((yield* connection(grantId))?.tokens, "first")
      const others: ReadonlyArray<McpServerSettings> = [
        { ...OAUTH, url: "https://evil.example.com/mcp" },
        { ...OAUTH, authentication: { type: "oauth", clientId: "mine" } },
        { ...OAUTH, authentication: { type: "oauth", scope: "read" } },
        { ...OAUTH, authentication: { type: "none" } }
      ]
      for (const other of others) {
        assert.isNull((yield* set(grantId, other)).connection)
        assert.isNull(yield* connection(grantId))
        // A connection for other settings does not count.
        assert.strictEqual((yield* Effect.flip(connect(grantId, "late")))._tag, "McpServerNotFound")
        yield* set(grantId, OAUTH)
        yield* connect(grantId, "again")
      }
      const client: McpServerSettings = { ...OAUTH, authentication: { type: "oauth", clientId: "mine" } }
      assert.strictEqual((yield* set(grantId, client, "secret")).hasCredential, true)
      yield* connect(grantId, "by a client", client)
      assert.strictEqual((yield* set(grantId, client)).hasCredential, true)
      assert.strictEqual((yield* connection(grantId))?.tokens, "by a client")
      yield* set(grantId, client, "another secret")
      assert.isNull(yield* connection(grantId))
      // The secret of a client is not another client's.
      const other: McpServerSettings = { ...OAUTH, authentication: { type: "oauth", clientId: "other" } }
      assert.strictEqual((yield* set(grantId, other)).hasCredential, false)
      assert.deepStrictEqual(yield* reveal(grantId), [[SHOP, "wiki", null]])
    }))
}

/** How connections by OAuth are renewed. */
const renewals = (it: Writer<Services>) => {
  it.effect("lets exactly one renew a version, until its time is over", () =>
    Effect.gen(function*() {
      const { grantId, version } = yield* connected
      const all = yield* Effect.all([claim(grantId, version), claim(grantId, version), claim(grantId, version)], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(all.toSorted(), [false, false, true])
      assert.isFalse(yield* claim(grantId, version + 1))
      assert.isTrue(yield* claim(grantId, version, later, DateTime.add(later, { minutes: 1 })))
    }))

  it.effect("replaces the tokens of the version that was renewed, and of no other", () =>
    Effect.gen(function*() {
      const { grantId, version } = yield* connected
      yield* claim(grantId, version)
      yield* endRenewal(grantId, version, { tokens: "second" })
      const renewed = yield* connection(grantId)
      assert.deepInclude(renewed, { tokens: "second", connectedAt: at, problem: null })
      assert.isAbove(renewed?.version ?? 0, version)
      yield* endRenewal(grantId, version, { tokens: "late" })
      yield* endRenewal(grantId, version, { problem: "late" })
      assert.deepStrictEqual(yield* connection(grantId), renewed)
      // The next renewal is free at once, and so it is after a failed one.
      assert.isTrue(yield* claim(grantId, renewed?.version ?? 0))
      yield* endRenewal(grantId, renewed?.version ?? 0, null)
      assert.isTrue(yield* claim(grantId, renewed?.version ?? 0))
    }))

  it.effect("remembers why a connection must be made again, until it is", () =>
    Effect.gen(function*() {
      const { grantId, version } = yield* connected
      yield* claim(grantId, version)
      yield* endRenewal(grantId, version, { problem: "It was refused." })
      assert.deepStrictEqual((yield* list(grantId))[0]?.connection, { connectedAt: at, problem: "It was refused." })
      yield* connect(grantId, "again", OAUTH, later)
      assert.deepStrictEqual((yield* list(grantId))[0]?.connection, { connectedAt: later, problem: null })
      const again = (yield* connection(grantId))?.version ?? 0
      assert.isAbove(again, version + 1)
      yield* remove(grantId)
      assert.isNull(yield* connection(grantId))
      // A late renewal finds no version of its number, because none is used twice.
      yield* set(grantId, OAUTH)
      yield* connect(grantId, "another", OAUTH, DateTime.add(later, { minutes: 1 }))
      assert.isAbove((yield* connection(grantId))?.version ?? 0, again)
    }))
}

export const suite = (name: string, layer: Layer.Layer<Services, unknown>) =>
  define(`McpServerStore (${name})`, layer, (it) => {
    settingsAndCredentials(it)
    commands(it)
    lists(it)
    connections(it)
    renewals(it)
  })
