import { assert, describe, it } from "@effect/vitest"
import * as Daemon from "@slipway/docker/Daemon"
import * as Docker from "@slipway/docker/options/OptionNames"
import { KeysPerUser } from "@slipway/domain/access/rules/Minting"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { CommitAuthor, CommitMessage } from "@slipway/domain/publishing/rules/Publication"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import * as Git from "@slipway/git/options/OptionNames"
import * as HttpSettings from "@slipway/http/server/Settings"
import * as Limits from "@slipway/machine/host/Limits"
import { Timing } from "@slipway/worker/shared/Timing"
import { ConfigProvider, Duration, Effect, Redacted, Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import * as Names from "../../src/settings/Names.ts"
import * as Settings from "../../src/settings/Settings.ts"
import * as Page from "../../src/SettingsPage.ts"

const load = (environment: Readonly<Record<string, string>>) =>
  Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))

const decoded = (text: string, { type }: (typeof Settings.all)[number]) => Schema.decodeEffect(type.schema)(text)

describe("Settings", () => {
  it("docs/settings.md says what they are", () => {
    const page = readFileSync(path.resolve(import.meta.dirname, "../../../../docs/settings.md"), "utf8")
    assert.strictEqual(Page.written(page), page, "npm run docs:reference writes it")
  })

  it("a page without a place for them is not written", () => {
    assert.throws(() => Page.written("# Settings\n"), /has to have <!-- settings/u)
  })

  it("each has a name of its own", () => {
    const names = Settings.all.map(({ name }) => name)
    assert.deepStrictEqual(names.filter((name, i) => names.indexOf(name) !== i), [])
  })

  it.effect("each default is a valid value", () =>
    Effect.forEach(Settings.all, (setting) => setting.default === null ? Effect.void : decoded(setting.default, setting)))

  it.effect("checkpoints are in the database, with the files, in a folder, or new ones in the one and earlier ones in the other", () =>
    Effect.gen(function*() {
      for (
        const [text, folder, writes] of [
          ["database", null, "database"],
          ["file:/mnt/shared/checkpoints/", "/mnt/shared/checkpoints", "folder"],
          ["database,file:/mnt/shared", "/mnt/shared", "database"],
          ["blobs", null, "blobs"],
          ["blobs,file:/mnt/shared", "/mnt/shared", "blobs"]
        ] as const
      ) {
        assert.deepStrictEqual((yield* load({ SLIPWAY_CHECKPOINTS: text })).checkpoints, { folder, writes })
      }
      assert.deepStrictEqual((yield* load({})).checkpoints, { folder: null, writes: "database" })
      assert.deepStrictEqual((yield* load({ SLIPWAY_BLOBS: "folder:/mnt/files" })).checkpoints, { folder: null, writes: "blobs" })
      for (
        const wrong of ["file:checkpoints", "/mnt/shared", "file:", "file:/a,file:/b", "s3://bucket", "file:/a,blobs", "database,blobs"]
      ) {
        assert.strictEqual((yield* Effect.flip(load({ SLIPWAY_CHECKPOINTS: wrong }))).setting, "SLIPWAY_CHECKPOINTS", wrong)
      }
    }))

  it.effect("files are in the database, in a folder or in a bucket, whose credentials are in variables or a file", () =>
    Effect.gen(function*() {
      const keys = { AWS_ACCESS_KEY_ID: "AKEXAMPLE", AWS_SECRET_ACCESS_KEY: "secret-canary" }
      const bucket = "s3://bucket/prefix?endpoint=https://minio.example:9000&region=eu"
      assert.deepStrictEqual((yield* load({})).blobs, { kind: "database" })
      assert.deepStrictEqual((yield* load(keys)).blobs, { kind: "database" })
      assert.deepStrictEqual((yield* load({ SLIPWAY_BLOBS: "folder:/mnt/files/" })).blobs, { kind: "folder", folder: "/mnt/files" })
      const { blobs } = yield* load({ SLIPWAY_BLOBS: bucket, ...keys })
      assert.deepInclude(blobs, {
        kind: "s3",
        address: { bucket: "bucket", prefix: "prefix", region: "eu", endpoint: "https://minio.example:9000" }
      })
      assert.notInclude(JSON.stringify(blobs), "canary")
      const fromFile = (yield* load({ SLIPWAY_BLOBS: bucket, SLIPWAY_BLOBS_CREDENTIALS_FILE: "/run/keys" })).blobs
      assert.deepInclude(fromFile, { credentials: { file: "/run/keys" } })
      for (const missing of Object.keys(keys)) {
        const error = yield* Effect.flip(load({ SLIPWAY_BLOBS: bucket, ...keys, [missing]: "" }))
        assert.strictEqual(error.setting, missing)
        assert.match(error.message, /must be set when SLIPWAY_BLOBS is s3:\/\/…, or SLIPWAY_BLOBS_CREDENTIALS_FILE\./u)
      }
      for (const wrong of ["folder:files", "/mnt/files", "folder:", "file:/mnt", "s3://", "s3://Bucket", "s3://bucket?acl=public"]) {
        assert.strictEqual((yield* Effect.flip(load({ SLIPWAY_BLOBS: wrong, ...keys }))).setting, "SLIPWAY_BLOBS", wrong)
      }
      for (const secret of ["s3://key:canary@bucket", "s3://bucket?endpoint=https://key:canary@host", "s3:// key:canary@x y"]) {
        const { message } = yield* Effect.flip(load({ SLIPWAY_BLOBS: secret, ...keys }))
        assert.match(message, /^SLIPWAY_BLOBS must be an address without credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\.$/u)
      }
    }))

  it.effect("the schema of the database has a name that needs no quotes and is not reserved", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* load({})).databaseSchema, "slipway")
      assert.strictEqual((yield* load({ SLIPWAY_DATABASE_SCHEMA: "agents_2" })).databaseSchema, "agents_2")
      for (const wrong of ["Agents", "2agents", "a b", "a;b", "pg_agents", "information_schema"]) {
        const { message } = yield* Effect.flip(load({ SLIPWAY_DATABASE_SCHEMA: wrong }))
        assert.match(message, /^SLIPWAY_DATABASE_SCHEMA must be a name of lower case letters[^\n]*$/u, wrong)
      }
    }))

  it.effect("caches of setups may take as much as the service chooses, as much as it is told, or nothing", () =>
    Effect.gen(function*() {
      assert.isNull((yield* load({})).cacheBytes)
      assert.strictEqual((yield* load({ SLIPWAY_CACHE_MIB: "3" })).cacheBytes, 3 * 2 ** 20)
      assert.strictEqual((yield* load({ SLIPWAY_CACHE_MIB: "0" })).cacheBytes, 0)
      assert.strictEqual((yield* Effect.flip(load({ SLIPWAY_CACHE_MIB: "-1" }))).setting, "SLIPWAY_CACHE_MIB")
    }))

  it.effect("the key of stored secrets is in a file or comes from a program, which has no shell", () =>
    Effect.gen(function*() {
      const command = (SLIPWAY_SECRETS_KEY_COMMAND: string) => load({ SLIPWAY_SECRETS_KEY_COMMAND })
      assert.isNull((yield* load({})).secretsKeyCommand)
      assert.deepStrictEqual((yield* command("/usr/bin/vault kv get  -field=key secret/slipway")).secretsKeyCommand, {
        program: "/usr/bin/vault",
        args: ["kv", "get", "-field=key", "secret/slipway"]
      })
      assert.deepStrictEqual((yield* command("op read op://Ops/Slipway/key")).secretsKeyCommand?.program, "op")
      for (
        const wrong of ["bin/key", "./key", " key", "key 'a b'", "key \"a\"", "key | tail -1", "key $HOME", "key; true", "key `id`",
          "key > a"]
      ) {
        const { message } = yield* Effect.flip(command(wrong))
        assert.match(message, /^SLIPWAY_SECRETS_KEY_COMMAND must be the absolute path of a program[^\n]*$/u, wrong)
      }
      const both = yield* Effect.flip(load({ SLIPWAY_SECRETS_KEY_COMMAND: "key", SLIPWAY_SECRETS_KEY_FILE: "a.key" }))
      assert.match(both.message, /^SLIPWAY_SECRETS_KEY_FILE must be unset while SLIPWAY_SECRETS_KEY_COMMAND is set/u)
    }))

  it.effect("values come in the units of the code: bytes, durations, absolute paths, no slash at the end", () =>
    Effect.gen(function*() {
      const { agentIdle, clone, creditPrice, dataDir, limits, publicUrl, secretsKeyFile, startup } = yield* load({
        SLIPWAY_PUBLIC_URL: "https://slipway.example.com/here//",
        SLIPWAY_DATA_DIR: "some/where",
        SLIPWAY_SECRETS_KEY_FILE: "a.key",
        SLIPWAY_STARTUP_SECONDS: "2",
        SLIPWAY_AGENT_IDLE_MINUTES: "3",
        SLIPWAY_CLONE_MINUTES: "4",
        SLIPWAY_CLONE_MIB: "6",
        SLIPWAY_SANDBOX_DISK_MIB: "64",
        SLIPWAY_CREDIT_MICRO_USD: "7"
      })
      assert.strictEqual(publicUrl, "https://slipway.example.com/here")
      assert.strictEqual(dataDir, path.resolve("some/where"))
      assert.strictEqual(secretsKeyFile, path.resolve("some/where/a.key"))
      assert.isNull((yield* load({})).secretsKeyFile)
      assert.deepStrictEqual(
        [startup, agentIdle, clone.time].map((time) => Duration.toSeconds(time)),
        [2, 180, 240]
      )
      assert.strictEqual(clone.bytes, 6_291_456)
      assert.strictEqual(limits.diskBytes, 67_108_864)
      assert.isNull(creditPrice)
      assert.strictEqual((yield* load({ SLIPWAY_CREDITS: "enforced", SLIPWAY_CREDIT_MICRO_USD: "7" })).creditPrice, 7)
    }))

  it.effect("one setting limits streams and downloads of users and grants, another bytes and files of a checkout", () =>
    Effect.gen(function*() {
      const { edge } = yield* load({ SLIPWAY_STREAMS_PER_USER: "1000" })
      assert.deepInclude(edge, { streamsPerUser: 1000, streamsPerGrant: 2500, downloadsPerUser: 80, downloadsPerGrant: 160 })
      const filesOf = (mib: string) => Effect.map(load({ SLIPWAY_CHECKOUT_MIB: mib }), ({ clone }) => clone.checkoutFiles)
      assert.deepStrictEqual([yield* filesOf(""), yield* filesOf("1"), yield* filesOf("10240")], [500_000, 500_000, 1_000_000])
    }))

  it.effect("what is refused is told by name and what it must be; of a secret not what it is", () =>
    Effect.gen(function*() {
      const refused = (environment: Readonly<Record<string, string>>) =>
        Effect.map(Effect.flip(load(environment)), ({ message }) => message)
      assert.strictEqual(
        yield* refused({ SLIPWAY_SANDBOX_MEMORY_MIB: "1" }),
        `SLIPWAY_SANDBOX_MEMORY_MIB must be a number of MiB from 64 to 1048576, but it is "1".`
      )
      assert.strictEqual(
        yield* refused({ SLIPWAY_ISOLATION: "podman" }),
        `SLIPWAY_ISOLATION must be auto, bubblewrap, docker, gvisor, runner, kubernetes or none, but it is "podman".`
      )
      assert.strictEqual(
        yield* refused({ DATABASE_URL: "mysql://root:hunter2@db" }),
        "DATABASE_URL must be a postgres:// address: it must begin with postgres://."
      )
      assert.strictEqual(
        yield* refused({ SLIPWAY_GITHUB_WEBHOOK_SECRET: "hunter2" }),
        "SLIPWAY_GITHUB_WEBHOOK_SECRET must be at least 16 characters."
      )
    }))

  it("a removed setting is reported with the setting to use instead", () => {
    const told = Settings.unknown({ SLIPWAY_DOWNLOADS_PER_USER: "1", SLIPWAY_STREAMS_PER_USER: "1" })
    assert.lengthOf(told, 1)
    assert.match(
      told[0] ?? "",
      /^SLIPWAY_DOWNLOADS_PER_USER is set, but .* removed: it does nothing\. SLIPWAY_STREAMS_PER_USER sets it too/u
    )
  })

  it.effect("an empty text counts as not set", () =>
    Effect.gen(function*() {
      const { databaseUrl, dataDirIsSet, port } = yield* load({ SLIPWAY_PORT: "", DATABASE_URL: "", SLIPWAY_DATA_DIR: "" })
      assert.deepStrictEqual([port, databaseUrl, dataDirIsSet], [4000, null, false])
    }))

  it.effect("a default is what the part that takes it does by itself", () =>
    Effect.gen(function*() {
      const {
        agentIdle,
        approval,
        commit,
        creditPrice,
        dockerSocket,
        edge,
        grantBudget,
        keysPerUser,
        lifetimes,
        limits,
        maxActiveSandboxes,
        rateLimitPerMinute,
        sandboxBudget
      } = yield* load({})
      const own = yield* Effect.provide(
        HttpSettings.Settings,
        HttpSettings.Settings.layer({ publicUrl: "http://localhost", cursorKey: Redacted.make("") })
      )
      assert.deepStrictEqual({ ...own, ...edge, requestsPerMinute: rateLimitPerMinute }, own)
      assert.deepStrictEqual({ ...Limits.defaults, ...limits }, Limits.defaults)
      assert.strictEqual(dockerSocket, Daemon.SOCKET)
      assert.strictEqual(keysPerUser, yield* KeysPerUser)
      assert.strictEqual(maxActiveSandboxes, yield* MaxActiveSandboxes)
      assert.deepStrictEqual({ sandbox: sandboxBudget, grant: grantBudget }, yield* Budgets)
      assert.strictEqual(creditPrice, yield* CreditPrice)
      assert.deepStrictEqual(commit, { author: yield* CommitAuthor, message: yield* CommitMessage, signingKeyFile: null })
      const policy = yield* Policy
      assert.deepStrictEqual([approval, agentIdle], [policy.approval, (yield* Timing).agentIdle])
      assert.deepStrictEqual({ ...policy, ...lifetimes }, policy)
      assert.lengthOf(Object.keys(lifetimes), 6)
    }))

  it.effect("adapters call their options by the settings", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual([(yield* Git.OptionNames)("fetchTime"), (yield* Docker.OptionNames)("socket")], ["SLIPWAY_CLONE_MINUTES",
        "SLIPWAY_DOCKER_SOCKET"])
    }).pipe(Effect.provide(Names.layer)))
})
