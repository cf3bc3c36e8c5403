import { assert, describe, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { tmpdir } from "node:os"
import { command, folder, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

interface Entry {
  readonly action: string
  readonly subjects: Readonly<Record<string, string>>
}

/** `slipway audit --follow --json`, killed with the scope. */
const follow = (dataDir: string, args: ReadonlyArray<string>) =>
  Effect.map(
    SpawnedProgram.scoped(process.execPath, [command, "audit", "--follow", "--json", ...args], {
      cwd: dataDir,
      env: { PATH: process.env["PATH"], TMPDIR: tmpdir(), SLIPWAY_DATA_DIR: dataDir }
    }),
    ({ stderr, stdout, stop }) => ({
      lines: (): ReadonlyArray<Entry> => stdout().split("\n").slice(0, -1).map((line) => JSON.parse(line)),
      errors: stderr,
      /** As Ctrl-C does; the exit code. */
      interrupt: Effect.promise(async () => (await stop("SIGINT")).code)
    })
  )

describe("slipway audit", () => {
  it.live("prints what happened newest last, by whom, no secret, and no more than was asked for", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { id, key } = JSON.parse((yield* run(data, ["keys", "create", "--json"])).stdout)
      yield* run(data, ["keys", "revoke", id])
      const all = yield* run(data, ["audit", "--since", "1d", "--json"])
      const entries: ReadonlyArray<{ readonly action: string; readonly actor: unknown; readonly subjects: Record<string, string> }> = JSON
        .parse(all.stdout)
      assert.deepStrictEqual(
        entries.map(({ action, actor, subjects }) => [action, actor, subjects["keyId"]]),
        [["key.minted", { _tag: "Operator" }, id], ["key.revoked", { _tag: "Operator" }, id]]
      )
      const lines = (yield* run(data, ["audit", "--since", "1d", "--limit", "1", "--jsonl"])).stdout.split("\n").slice(0, -1)
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(lines.map(({ cursor: _cursor, ...entry }) => entry), JSON.parse(all.stdout))
      for (const { cursor } of lines) assert.match(cursor, /^\d+$/u)
      const last = yield* run(data, ["audit", "--limit", "1"])
      assert.match(last.stdout, new RegExp(`^AT +WHO +WHAT +TO\\n\\S+Z +operator +key\\.revoked .*keyId=${id}.*\\n$`, "u"))
      assert.strictEqual((yield* run(data, ["audit", "--since", "2100-01-01T00:00:00Z"])).stdout, "Nothing happened.\n")
      assert.notInclude(all.stdout + last.stdout, key)
      const wrong = yield* run(data, ["audit", "--since", "yesterday"])
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.stderr, "days such as 90d")
    }), LONG)
})

describe("slipway audit --follow", () => {
  it.live("prints what happens from now on, one JSON object a line, until it is interrupted", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const server = yield* serve(data)
      const before = JSON.parse((yield* run(data, ["keys", "create", "--json"])).stdout)
      const [all, revoked] = [yield* follow(data, []), yield* follow(data, ["--action", "key.revoked"])]
      // They say nothing when they begin to follow: keys are made and revoked until both have told of one.
      const revoke = Effect.gen(function*() {
        const { id } = JSON.parse((yield* run(data, ["keys", "create", "--json"])).stdout)
        yield* run(data, ["keys", "revoke", id])
      })
      yield* until(Effect.as(revoke, [all, revoked]), (both) => both.every(({ lines }) => lines().length > 0))
      yield* run(data, ["keys", "revoke", before.id])
      for (const { lines } of [all, revoked]) {
        yield* until(Effect.sync(lines), (told) => told.some(({ subjects }) => subjects["keyId"] === before.id))
      }
      const told = all.lines().map(({ action, subjects }) => `${action} ${subjects["keyId"]}`)
      assert.strictEqual(new Set(told).size, told.length)
      assert.notInclude(told, `key.minted ${before.id}`)
      assert.isTrue(revoked.lines().every(({ action }) => action === "key.revoked"))
      const listed: ReadonlyArray<Entry> = JSON.parse(
        (yield* run(data, ["audit", "--action", "key.revoked", "--subject", before.id, "--json"])).stdout
      )
      assert.deepStrictEqual(listed, revoked.lines().slice(-1))
      assert.strictEqual(yield* all.interrupt, 0)
      assert.strictEqual(all.errors(), "")
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped), LONG)
})

describe("people and organizations", () => {
  it.live("a person is added, approved, gets a key with an end, and loses it with the membership", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const json = (...args: ReadonlyArray<string>) =>
        Effect.map(run(data, [...args, "--json"]), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual([code, stderr], [0, ""], args.join(" "))
          return JSON.parse(stdout)
        })
      const refused = (...args: ReadonlyArray<string>) =>
        Effect.map(run(data, args), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual([code, stdout], [1, ""], args.join(" "))
          return stderr
        })
      const server = yield* serve(data)
      const asked = (key: string) =>
        Effect.promise(() => fetch(`${server.url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })).pipe(
          Effect.map(({ status }) => status)
        )

      const { user } = yield* json("members", "add", "Ada@Example.com", "--role", "owner")
      assert.deepStrictEqual([user.email, user.approvedAt], ["Ada@Example.com", null])
      const forAda = ["keys", "create", "--user", "ada@example.com", "--grant", "ada"]
      assert.include(yield* refused(...forAda), "slipway: The user is not approved.")
      assert.notInclude((yield* json("grants", "list")).map(({ name }: { name: string }) => name), "ada")
      yield* json("users", "approve", "ada@EXAMPLE.com")
      assert.include((yield* run(data, ["users", "list"])).stdout, "Ada@Example.com  -       ")
      assert.include(yield* refused(...forAda, "--expires", "367d"), "within 366 days")
      const minted = yield* json(...forAda, "--expires", "90d")
      assert.strictEqual(minted.userId, user.id)
      const listed = (yield* json("keys", "list")).find(({ id }: { id: string }) => id === minted.id)
      assert.deepStrictEqual([listed.state, listed.expiresAt], ["active", minted.expiresAt])
      assert.strictEqual(Date.parse(listed.expiresAt) - Date.parse(listed.createdAt), 90 * 86_400_000)
      assert.strictEqual(yield* asked(minted.key), 200)

      yield* json("orgs", "suspend", "default")
      assert.deepStrictEqual([yield* asked(minted.key), yield* asked(server.key ?? "")], [403, 403])
      assert.include((yield* run(data, ["orgs", "list"])).stdout, "suspended")
      yield* json("orgs", "resume", "default")
      assert.strictEqual((yield* json("members", "remove", "ada@example.com")).active, false)
      assert.deepStrictEqual([yield* asked(minted.key), yield* asked(server.key ?? "")], [403, 200])
      assert.deepStrictEqual((yield* json("members", "list")).map(({ active }: { active: boolean }) => active), [true, false])
      assert.isNull((yield* json("users", "disapprove", user.id)).approvedAt)

      const actions = (yield* json("audit")).map(({ action }: { action: string }) => action)
      assert.deepStrictEqual(actions, [
        "key.minted",
        "sign_in_link.made",
        "member.added",
        "user.approved",
        "key.minted",
        "key.first_used",
        "organization.suspended",
        "key.first_used",
        "organization.resumed",
        "member.removed",
        "user.disapproved"
      ])
    }).pipe(Effect.scoped), LONG)

  it.live("who or what is not there is one line and exit 1", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const wrong: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["users", "approve", "unknown"], "There is no user unknown. See: slipway users list"],
        [["users", "approve", "no body"], "no body names no user: give an id (user_…), an e-mail address or a GitHub login."],
        [["members", "add", "user_01ARZ3NDEKTSV4RRFFQ69G5FAV"],
          "There is no user user_01ARZ3NDEKTSV4RRFFQ69G5FAV. See: slipway users list"],
        [["members", "remove", "unknown"], "There is no user unknown. See: slipway users list"],
        [["orgs", "suspend", "acme"], "There is no organization acme. See: slipway orgs list"],
        [["members", "list", "--organization", "acme"], "There is no organization acme. See: slipway orgs list"]
      ]
      for (const [args, message] of wrong) {
        assert.deepStrictEqual(yield* run(data, args), { code: 1, stdout: "", stderr: `slipway: ${message}\n` })
      }
    }), LONG)

  it.live("organizations are apart: each has its members, its grants and their keys", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const json = (...args: ReadonlyArray<string>) => Effect.map(run(data, [...args, "--json"]), ({ stdout }) => JSON.parse(stdout))
      const acme = yield* json("orgs", "create", "acme")
      assert.deepStrictEqual(yield* json("orgs", "create", "acme"), acme)
      assert.deepStrictEqual((yield* json("orgs", "list")).map(({ name }: { name: string }) => name), ["default", "acme"])
      const grant = yield* json("grants", "create", "shop", "--organization", "acme")
      assert.strictEqual(grant.organizationId, acme.id)
      const taken = yield* run(data, ["grants", "create", "shop", "--organization", "default"])
      assert.deepStrictEqual([taken.code, taken.stdout], [1, ""])
      assert.include(taken.stderr, "There is a grant shop already, of another organization.")
      yield* json("members", "add", "ada-l", "--organization", "acme")
      yield* json("users", "approve", "ada-l")
      const outsider = yield* run(data, ["keys", "create", "--grant", "shop"])
      assert.include(outsider.stderr, "not an active member of the grant's organization")
      const key = yield* json("keys", "create", "--grant", "shop", "--user", "ada-l")
      assert.strictEqual(key.grantId, grant.id)
    }), LONG)
})
