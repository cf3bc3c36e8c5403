/** The list of source hosts. */
import { assert, it } from "@effect/vitest"
import { ConfigProvider, Effect, Redacted } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as HostTokens from "../../src/service/hosts/HostTokens.ts"
import * as Settings from "../../src/settings/Settings.ts"
import type * as SourceHosts from "../../src/settings/SourceHosts.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-hosts-"))),
  (at) => Effect.sync(() => rmSync(at, { recursive: true }))
)

const load = (environment: Readonly<Record<string, string>>) =>
  Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))

/** The hosts of a list with files beside it. */
const listed = Effect.fnUntraced(function*(list: unknown, files: Readonly<Record<string, string>> = {}) {
  const at = yield* folder
  const file = path.join(at, "hosts.json")
  writeFileSync(file, typeof list === "string" ? list : JSON.stringify(list))
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(at, name), text)
  return { at, loaded: yield* Effect.result(load({ SLIPWAY_SOURCE_HOSTS: file })) }
})

const problem = Effect.fnUntraced(function*(list: unknown, files?: Readonly<Record<string, string>>) {
  const { at, loaded } = yield* listed(list, files)
  if (loaded._tag === "Success") return "valid"
  assert.match(loaded.failure.message, /^SLIPWAY_SOURCE_HOSTS must be a file with a list of source hosts: /u)
  return loaded.failure.message.slice("SLIPWAY_SOURCE_HOSTS must be a file with a list of source hosts: ".length).replaceAll(at, "FOLDER")
})

const gitlab = { kind: "gitlab", url: "https://gitlab.example.com", tokenFile: "token" }
const forgejo = { kind: "forgejo", url: "https://git.example.com/forge/", tokenFile: "/etc/slipway/forgejo" }
const github = { kind: "github", appId: "12", privateKeyFile: "app.pem" }

it.effect("without a list the host is GitHub by its settings, or this machine", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual((yield* load({})).sourceHosts, { list: [{ kind: "local", name: "local", repositories: null }], file: null })
    const { sourceHosts } = yield* load({
      SLIPWAY_GITHUB_APP_ID: "1",
      SLIPWAY_GITHUB_PRIVATE_KEY_FILE: "/k",
      SLIPWAY_GITHUB_API_URL: "https://git.example/api/v3"
    })
    assert.deepInclude(sourceHosts.list[0], { kind: "github", name: "git.example", appId: "1" })
    assert.isNull(sourceHosts.file)
  }))

it.effect("a list has hosts in the order in which they own names, each with a name, and files beside the list", () =>
  Effect.gen(function*() {
    const { at, loaded } = yield* listed(
      [
        { kind: "local" },
        { ...github, repositories: ["Acme/*", "beta/docs"], webhookSecretFile: "hook" },
        { ...gitlab, name: "work", groups: ["platform"], tokens: [{ path: "platform/payments", file: "payments" }] },
        { ...forgejo, repositories: ["*"] }
      ].toSpliced(2, 1, { ...gitlab, name: "work", groups: ["platform"], repositories: ["shop/*"], tokens: [{ path: "a/b", file: "b" }] }),
      {
        hook: "sixteen characters\n"
      }
    )
    if (loaded._tag === "Failure") return assert.fail(loaded.failure.message)
    const [local, hub, lab, forge] = loaded.success.sourceHosts.list
    assert.deepStrictEqual(local, { kind: "local", name: "local", repositories: null })
    assert.deepInclude(hub, {
      name: "github.com",
      repositories: ["acme/*", "beta/docs"],
      privateKeyFile: path.join(at, "app.pem"),
      apiUrl: "https://api.github.com"
    })
    assert.strictEqual(hub?.kind === "github" && hub.webhookSecret !== null && Redacted.value(hub.webhookSecret), "sixteen characters")
    assert.deepInclude(lab, {
      name: "work",
      groups: ["platform"],
      tokenFile: path.join(at, "token"),
      tokens: [{ path: "a/b", file: path.join(at, "b") }],
      webhookSecret: null
    })
    assert.deepInclude(forge, { name: "git.example.com", url: "https://git.example.com/forge", tokenFile: "/etc/slipway/forgejo" })
  }).pipe(Effect.scoped))

it.effect("a wrong list is refused with the place of the fault and what is expected", () =>
  Effect.gen(function*() {
    for (
      const [list, expected] of [
        ["{", /JSON/u],
        [[], /it has none/u],
        [[{ ...gitlab, url: "ftp://x" }], /^\[0\]\.url: .*http or https address/u],
        [[{ ...gitlab, repositories: ["acme"] }], /^\[0\]\.repositories\[0\]: .*owner\/name, owner\/\* or \*/u],
        [[{ ...gitlab, token: "glpat-x" }], /^\[0\]\.token: /u],
        [[{ ...gitlab, kind: "bitbucket" }], /^\[0\]/u],
        [[{ ...github, appId: undefined }], /^\[0\]\.appId/u],
        [{}, /./u],
        [[{ ...gitlab, tokenFile: undefined }], /gitlab\.example\.com needs a tokenFile, or tokens, or oauth/u],
        [[{ ...gitlab, oauth: { clientId: "a" } }], /gitlab\.example\.com has a tokenFile and oauth: leave one out/u],
        [[{ ...forgejo, oauth: { clientId: "a" } }], /^\[0\]\.oauth/u],
        [[{ ...gitlab, webhookSecretFile: "short" }], /FOLDER\/short must have at least 16 characters/u],
        [[{ ...gitlab, webhookSecretFile: "missing" }], /FOLDER\/missing cannot be read/u],
        [[gitlab, { ...gitlab, url: "https://GITLAB.example.com" }], /two of them have the name gitlab\.example\.com/u],
        [[gitlab, github], /gitlab\.example\.com has all repositories, so that github\.com after it has none/u],
        [[{ ...github, repositories: ["acme/*", "*"] }, gitlab], /github\.com has all repositories/u],
        [Array.from({ length: 21 }, (_, i) => ({ ...gitlab, name: `h${i}`, repositories: ["a/b"] })), /more than 20/u]
      ] as const
    ) {
      const said = yield* problem(list, { short: "short\n" })
      assert.match(said, expected)
    }
    assert.strictEqual(yield* problem([{ ...gitlab, repositories: ["acme/*"] }, { kind: "local" }, github]), "valid")
    const both = { SLIPWAY_SOURCE_HOSTS: "/x", SLIPWAY_GITHUB_APP_ID: "1", SLIPWAY_GITHUB_PRIVATE_KEY_FILE: "/k" }
    assert.match((yield* Effect.flip(load(both))).message, /write the GitHub App into it, and unset SLIPWAY_GITHUB_APP_ID/u)
    assert.match((yield* Effect.flip(load({ SLIPWAY_SOURCE_HOSTS: "/nonexistent" }))).message, /it cannot be read/u)
  }).pipe(Effect.scoped))

it.effect("a token is for a project or group and all below it, and the longest path wins", () =>
  Effect.gen(function*() {
    const at = yield* folder
    const token = (name: string, text: string) => {
      writeFileSync(path.join(at, name), text)
      return path.join(at, name)
    }
    const host: SourceHosts.GitLabHost = {
      kind: "gitlab",
      name: "gitlab.example.com",
      repositories: null,
      groups: [],
      oauth: null,
      signingToken: null,
      url: "https://gitlab.example.com",
      tokenFile: token("all", "token-of-all\n"),
      tokens: [
        { path: "platform", file: token("platform", "token-of-platform") },
        { path: "Platform/payments", file: token("payments", "token-of-payments") }
      ],
      webhookSecret: null
    }
    const of = (asked: string, known = host) => Effect.map(HostTokens.tokenFor(known, null)(asked), Redacted.value)
    for (
      const [asked, expected] of [
        ["", "token-of-all"],
        ["acme/shop", "token-of-all"],
        ["platforms/shop", "token-of-all"],
        ["PLATFORM/shop", "token-of-platform"],
        ["platform/payments", "token-of-payments"],
        ["platform/payments/shop", "token-of-payments"]
      ] as const
    ) assert.strictEqual(yield* of(asked), expected, asked)
    // A replaced file counts at once.
    token("all", "token-of-tomorrow")
    assert.strictEqual(yield* of("acme/shop"), "token-of-tomorrow")
    const none = yield* Effect.flip(of("acme/shop", { ...host, tokenFile: null }))
    assert.strictEqual(none.detail, "No token of gitlab.example.com is for acme/shop. Add a token to its entry in SLIPWAY_SOURCE_HOSTS.")
    token("all", "two words")
    const wrong = yield* Effect.flip(of("acme/shop"))
    assert.include(wrong.detail, "must have the token and nothing else")
    assert.notInclude(wrong.detail, "words")
    rmSync(path.join(at, "all"))
    assert.deepInclude(yield* Effect.flip(of("acme/shop")), { _tag: "SourceHostError", retryable: false })
  }).pipe(Effect.scoped))
