/** `slipway artifacts` with a running service: the files that an agent leaves, from its box to a file of this machine. */
import { assert, describe, it } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import { Effect } from "effect"
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

/** The agent leaves a report, a picture in a folder, and traps. */
const LEAVE = "cd \"$SLIPWAY_ARTIFACTS\" && printf 'one\\n' > report.md && mkdir shots && " +
  "echo iVBORw0KGgo= | base64 -d > shots/a.png && printf 'export X=1\\n' > .profile && " +
  "ln -s /etc/passwd link && mkfifo pipe && ln -s \"$HOME\" home && touch \"$(printf 'red\\033[31m')\""

describe("slipway artifacts", () => {
  it.live("lists and saves what the agent left, also after its sandbox ended, and writes over nothing", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const shop = repository(data)
      const server = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", shop])
      const slipway = (...args: ReadonlyArray<string>) =>
        run(data, ["artifacts", ...args], { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: server.key ?? "" })
      const client = new SlipwayClient({ baseUrl: server.url, apiKey: server.key ?? "" })
      const { id } = yield* Effect.promise(() =>
        client.createSandbox({ repos: [{ fullName: "acme/shop" }], prompt: `[[shell ${LEAVE}]]`, toolApprovalMode: "auto" })
      )
      yield* until(Effect.promise(() => client.listCheckpoints(id)), ({ data }) => data.length > 0)
      const { data: found, leftOut } = yield* Effect.promise(() => client.listArtifacts(id))
      assert.deepStrictEqual(found.map(({ mediaType, name }) => [name, mediaType]), [
        [".profile", "text/plain"],
        ["report.md", "text/plain"],
        ["shots/a.png", "image/png"]
      ])
      assert.match(leftOut ?? "", /^1 file was not kept because of the name/u)

      const listed = yield* slipway(id)
      assert.match(
        listed.stdout,
        /^NAME +BYTES +TYPE +STORED\n\.profile .*\nreport\.md +4 +text\/plain .*\nshots\/a\.png .*\n1 file was not kept/u
      )
      assert.deepStrictEqual(JSON.parse((yield* slipway(id, "--json")).stdout), { data: found, leftOut })
      assert.strictEqual((yield* slipway(id, "report.md", "-o", "-")).stdout, "one\n")

      // The names of an agent lead to no other folder, to no hidden file and over no file.
      const here = path.join(data, "here")
      mkdirSync(here)
      const at = (name: string) => path.join(here, name)
      const saved = yield* slipway(id, "shots/a.png", "--output", at("a.png"))
      assert.deepStrictEqual(saved, { code: 0, stdout: `Saved ${at("a.png")} (8 bytes).\n`, stderr: "" })
      assert.strictEqual(readFileSync(at("a.png")).toString("base64"), "iVBORw0KGgo=")
      const hidden = yield* slipway(id, ".profile")
      assert.deepStrictEqual([hidden.code, hidden.stdout], [2, ""])
      assert.include(hidden.stderr, "would be a hidden file")
      writeFileSync(at("report.md"), "mine")
      symlinkSync(at("elsewhere"), at("link"))
      for (const name of ["report.md", "link"]) {
        const refused = yield* slipway(id, "report.md", "-o", at(name))
        assert.strictEqual(refused.code, 2, name)
        assert.include(refused.stderr, "exists")
      }
      assert.strictEqual(readFileSync(at("report.md"), "utf8"), "mine")
      for (const name of ["report.md", "link"]) {
        assert.strictEqual((yield* slipway(id, "report.md", "-o", at(name), "--force")).code, 0)
        assert.strictEqual(readFileSync(at(name), "utf8"), "one\n")
        assert.isFalse(lstatSync(at(name)).isSymbolicLink())
      }
      assert.deepStrictEqual(readdirSync(here).toSorted(), ["a.png", "link", "report.md"])
      assert.strictEqual((yield* slipway(id, "../report.md")).code, 5)

      // A later turn replaces one of them. They outlive the sandbox.
      const next = "[[shell echo two > \"$SLIPWAY_ARTIFACTS/report.md\"; rm -r \"$SLIPWAY_ARTIFACTS/shots\"]]"
      const { turnId } = yield* Effect.promise(() => client.sendMessage(id, next))
      yield* until(Effect.promise(() => client.listCheckpoints(id)), ({ data }) => data.length > 1)
      const later = yield* Effect.promise(() => client.listArtifacts(id))
      assert.deepStrictEqual(later.data.map(({ name, turnId: of }) => [name, of === turnId]), [
        [".profile", false],
        ["report.md", true],
        ["shots/a.png", false]
      ])
      yield* Effect.promise(() => client.terminateSandbox(id))
      yield* until(Effect.promise(() => client.getSandbox(id)), ({ status }) => status === "terminated")
      assert.strictEqual((yield* slipway(id, "report.md", "-o", "-")).stdout, "two\n")
    }), LONG)
})
