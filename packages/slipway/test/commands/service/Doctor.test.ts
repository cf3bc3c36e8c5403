import { assert, describe, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as S3Server from "@slipway/machine/testing/S3Server"
import * as OidcServer from "@slipway/oidc/testing/OidcServer"
import { DateTime, Effect } from "effect"
import { spawnSync } from "node:child_process"
import { generateKeyPairSync } from "node:crypto"
import { existsSync, readdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { adviceOfPin, type Finding, findingOf } from "../../../src/commands/setup/Doctor.ts"
import { command as slipway, folder, processesOf, repository, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

const absent = spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "needs bubblewrap: apt-get install bubblewrap"

const mounts = spawnSync("sh", ["-c", "command -v mkfs.ext4 && losetup --find"]).status === 0 && process.getuid?.() === 0

const examined = Effect.fnUntraced(function*(settings: Record<string, string>) {
  const data = yield* folder
  const ended = yield* run(data, ["doctor", "--json"], settings)
  const findings: ReadonlyArray<Finding> = JSON.parse(ended.stdout)
  return { ...ended, data, found: new Map(findings.map((finding) => [finding.what, finding])) }
})

describe("slipway doctor", () => {
  it.live("runs the command of the secrets key, and tells why there is no key", () =>
    Effect.gen(function*() {
      const { code, found } = yield* examined({ SLIPWAY_SECRETS_KEY_COMMAND: "/bin/ls /canary-missing" })
      assert.strictEqual(code, 1)
      const finding = found.get("secrets key")
      assert.strictEqual(finding?.state, "missing")
      assert.match(
        finding?.detail ?? "",
        /program \/bin\/ls cannot be used: the program ended with exit code \d\. It printed: .*No such file/u
      )
      const key = Buffer.alloc(32, 7).toString("base64")
      const given = (yield* examined({ SLIPWAY_SECRETS_KEY_COMMAND: `/bin/echo ${key}` })).found.get("secrets key")
      assert.deepStrictEqual(given, {
        what: "secrets key",
        state: "ok",
        detail: "one key, what /bin/echo prints (SLIPWAY_SECRETS_KEY_COMMAND)"
      })
    }).pipe(Effect.scoped), LONG)

  it("warns of a pinned agent after more than 60 days, with the day and what to do", () => {
    const advice = (day: string) => adviceOfPin("2026-11-30", DateTime.makeUnsafe(`${day}T12:00:00Z`))
    for (const day of ["2026-11-29", "2026-11-30", "2027-01-29"]) assert.isNull(advice(day), day)
    assert.match(advice("2027-01-30") ?? "", /^pinned on 2026-11-30, 61 days ago\. Update Slipway/u)
  })

  it("notes an installed agent with an old pin, and neither a missing one nor a part of Slipway", () => {
    const found = (program: { readonly pinnedOn: string } | null, version: string | null, day: string) =>
      findingOf("codex", program, { state: "ready", version, command: "/x" }, DateTime.makeUnsafe(`${day}T12:00:00Z`))
    const program = { pinnedOn: "2026-11-30" }
    assert.deepStrictEqual(found(program, "0.171.0", "2027-01-29"), { what: "agent codex", state: "ok", detail: "0.171.0" })
    const old = found(program, "0.171.0", "2027-01-30")
    assert.strictEqual(old.state, "note")
    assert.match(old.detail ?? "", /^0\.171\.0, pinned on 2026-11-30, 61 days ago\. .*slipway agents install$/u)
    assert.strictEqual(found(null, null, "2030-01-01").state, "ok")
    const missing = { state: "unusable", version: null, reason: "codex is not installed." } as const
    const now = DateTime.makeUnsafe("2030-01-01T12:00:00Z")
    assert.strictEqual(findingOf("codex", program, missing, now).detail, "codex is not installed.")
  })

  it.live.skipIf(absent !== undefined)(
    `finds what agents need, starts nothing that stays, and ends with 0${absent === undefined ? "" : ` (${absent})`}`,
    () =>
      Effect.gen(function*() {
        const { code, data, found, stderr } = yield* examined({ SLIPWAY_EGRESS_ALLOW: "pypi.org:443" })
        assert.deepStrictEqual([code, stderr], [0, ""])
        for (
          const what of ["Node", "git", "Postgres", "isolation", "box: namespaces", "box: system calls", "box: network", "agent offline"]
        ) {
          assert.strictEqual(found.get(what)?.state, "ok", what)
        }
        assert.include(found.get("box: way out")?.detail, "pypi.org:443")
        assert.strictEqual(found.get("box: disk")?.state, "ok")
        const disk = String(found.get("box: disk")?.detail)
        if (mounts) assert.match(disk, /^10 GiB and 1000000 files, kept by the kernel: a file system for each sandbox; /u)
        else assert.match(disk, /^10 GiB and 1000000 files, measured while it runs, .*, not kept by the kernel \(/u)
        assert.deepInclude(found.get("agent codex"), { state: "note", detail: "codex is not installed. Run: slipway agents install codex" })
        assert.deepStrictEqual(readdirSync(data), [])
        assert.deepStrictEqual(yield* processesOf(data), [])
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("says that commits cannot be signed, and a service with such a key does not start", () =>
    Effect.gen(function*() {
      const locked = path.join(yield* folder, "locked")
      const cipher = { cipher: "aes-256-cbc", passphrase: "canary words" }
      writeFileSync(locked, generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem", ...cipher }))
      const settings = { SLIPWAY_COMMIT_SIGNING_KEY_FILE: locked }
      const { code, found } = yield* examined(settings)
      assert.deepStrictEqual([code, found.get("signed commits")?.state], [1, "missing"])
      const ended = yield* run(yield* folder, ["serve"], { ...settings, SLIPWAY_PORT: "0" })
      assert.strictEqual(ended.code, 1)
      assert.match(ended.stderr, /^[^\n]*SLIPWAY_COMMIT_SIGNING_KEY_FILE must be [^\n]*it has a passphrase[^\n]*\n$/u)
    }).pipe(Effect.scoped), LONG)

  it.live("says whether checkpoints can be kept in their folder, and makes none", () =>
    Effect.gen(function*() {
      const there = yield* folder
      const missing = path.join(there, "checkpoints")
      const { found } = yield* examined({ SLIPWAY_CHECKPOINTS: `file:${there}` })
      assert.strictEqual(found.get("checkpoints")?.state, "ok")
      assert.match(String(found.get("checkpoints")?.detail), /^in \/.*, \d+ GiB free$/u)
      const without = yield* examined({ SLIPWAY_CHECKPOINTS: `file:${missing}` })
      assert.deepStrictEqual([without.code, without.found.get("checkpoints")], [1, {
        what: "checkpoints",
        state: "missing",
        detail: `in ${missing}: it is not there. Make it, or mount what it is on`
      }])
      assert.deepStrictEqual(readdirSync(there), [])
    }).pipe(Effect.scoped), LONG)

  it.live("says whether files can be kept in their folder or bucket, by storing one, and leaves none", () =>
    Effect.gen(function*() {
      const there = yield* folder
      const { found } = yield* examined({ SLIPWAY_BLOBS: `folder:${there}` })
      assert.deepStrictEqual(found.get("files"), { what: "files", state: "ok", detail: `in ${there}` })
      const names = readdirSync(there, { recursive: true, withFileTypes: true })
      assert.deepStrictEqual(names.filter((name) => name.isFile()), [])
      const missing = path.join(there, "missing")
      const without = yield* examined({ SLIPWAY_BLOBS: `folder:${missing}` })
      assert.deepStrictEqual([without.code, without.found.get("files")], [1, {
        what: "files",
        state: "missing",
        detail: `Blobs cannot be kept in ${missing}: it is not there, or is empty. Make it, or mount what it is on.`
      }])
      const server = yield* S3Server.make()
      const bucket = {
        SLIPWAY_BLOBS: `s3://${S3Server.BUCKET}/files?endpoint=${server.endpoint}&region=${S3Server.REGION}`,
        AWS_ACCESS_KEY_ID: S3Server.ACCESS_KEY
      }
      const right = yield* examined({ ...bucket, AWS_SECRET_ACCESS_KEY: S3Server.SECRET_KEY })
      assert.deepStrictEqual(right.found.get("files"), {
        what: "files",
        state: "ok",
        detail: `at ${server.endpoint}/${S3Server.BUCKET}/files`
      })
      assert.deepStrictEqual([server.requests.map((request) => request.split(" ")[0]), server.objects.size], [["PUT", "GET", "DELETE"], 0])
      const wrong = yield* examined({ ...bucket, AWS_SECRET_ACCESS_KEY: "another-secret-canary" })
      assert.strictEqual(wrong.found.get("files")?.state, "missing")
      assert.match(String(wrong.found.get("files")?.detail), /the secret key is wrong\. Check AWS_SECRET_ACCESS_KEY\.$/u)
      assert.notInclude(wrong.stderr + JSON.stringify(Array.from(wrong.found.values())), "canary")
    }).pipe(Effect.scoped), LONG)

  it.live.skipIf(absent !== undefined || !mounts)(
    `looks beside a service, whose sandboxes keep their disks until they end${mounts ? "" : " (needs root, e2fsprogs, loop devices)"}`,
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const settings = { SLIPWAY_SANDBOX_DISK_MIB: "64" }
        yield* run(data, ["repos", "add", "acme/shop", repository(data)])
        const server = yield* serve(data, settings)
        const call = async (method: string, address: string, body?: unknown) => {
          const response = await fetch(`${server.url}/api/public/v1${address}`, {
            method,
            headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return { status: response.status, text: await response.text() }
        }
        const asked = (...args: Parameters<typeof call>) => Effect.promise(() => call(...args))
        const made = yield* asked("POST", "/sandboxes", {
          repos: [{ fullName: "acme/shop" }],
          prompt: "[[shell dd if=/dev/zero of=large bs=1048576 count=80]]\n[[shell echo still here > small]]"
        })
        const { id } = JSON.parse(made.text)
        yield* until(asked("GET", `/sandboxes/${id}/events`), ({ text }) => text.includes("turn.completed"))
        const log = (yield* asked("GET", `/sandboxes/${id}/events`)).text
        assert.include(log, "No space left on device")

        const { code, stdout } = yield* run(data, ["doctor", "--json"], settings)
        const findings: ReadonlyArray<Finding> = JSON.parse(stdout)
        assert.strictEqual(code, 0)
        assert.match(String(findings.find(({ what }) => what === "box: disk")?.detail), /^64 MiB and 16384 files, kept by the kernel/u)
        assert.deepStrictEqual(yield* Mounts.disksLeft(data, 1), [path.join(data, "trees/disks", id)])
        const { status, text } = yield* asked("GET", `/sandboxes/${id}/files/tree`)
        assert.strictEqual(status, 200, text)
        assert.include(text, "small")

        assert.isBelow((yield* asked("POST", `/sandboxes/${id}/terminate`)).status, 300)
        yield* Mounts.disksLeft(data, 0)
        const other = JSON.parse((yield* asked("POST", "/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "[[say Hello]]" })).text)
        yield* until(asked("GET", `/sandboxes/${other.id}/events`), ({ text }) => text.includes("turn.completed"))
        assert.lengthOf(Mounts.below(data), 1)
        // It lives on, and nothing of it stays mounted without the service.
        assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
        assert.deepStrictEqual(Mounts.below(data), [])
      }).pipe(Effect.scoped),
    LONG
  )

  it.live.skipIf(absent !== undefined || process.getuid?.() !== 0)(
    "names what is missing and the command that installs it (needs bubblewrap, which it hides, and root)",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const hidden = (command: string, isolation: string) =>
          Effect.sync(() =>
            spawnSync("unshare", ["--mount", "--propagation", "private", "sh", "-c",
              `mount -o bind /dev/null "$(command -v bwrap)" && exec "$0" "$@"`, process.execPath, slipway, command], {
              encoding: "utf8",
              env: { PATH: process.env["PATH"], SLIPWAY_DATA_DIR: data, SLIPWAY_PORT: "0", SLIPWAY_ISOLATION: isolation }
            })
          )
        const doctor = yield* hidden("doctor", "auto")
        assert.match(doctor.stdout, /✗ +isolation +The program bwrap is not installed\. Install it: apt-get install bubblewrap /u)
        assert.strictEqual(doctor.status, 1)
        const models = yield* hidden("models", "auto")
        assert.match(models.stdout, /^offline\/demo .*usable/mu)
        assert.match(models.stdout, /^openai\/.*bwrap is not installed/mu)
        const serve = yield* hidden("serve", "bubblewrap")
        assert.deepStrictEqual([serve.status, serve.stdout], [1, ""])
        const said = serve.stderr.trimEnd().split("\n")
        assert.match(
          said.at(-1) ?? "",
          /^slipway: Sandboxes cannot be isolated, and SLIPWAY_ISOLATION is bubblewrap\. The program bwrap is not installed/u
        )
        assert.notInclude(serve.stderr, "Listening")
        // Its database was begun before, has said so at most, and has ended.
        assert.isTrue(said.slice(0, -1).every((line) => line.includes(`"migrations applied"`)), serve.stderr)
        assert.isTrue(existsSync(path.join(data, "postgres/cluster")))
        assert.isFalse(existsSync(path.join(data, "postgres/cluster/postmaster.pid")))
        assert.deepStrictEqual(yield* processesOf(data), [])
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("ends with 1 and one line when something is missing that agents cannot do without", () =>
    Effect.gen(function*() {
      const { code, found, stderr } = yield* examined({ DATABASE_URL: "postgres://stranger@127.0.0.1:1/none", SLIPWAY_ISOLATION: "none" })
      assert.strictEqual(code, 1)
      assert.strictEqual(found.get("Postgres")?.state, "missing")
      assert.deepInclude(found.get("isolation"), {
        state: "note",
        detail: "SLIPWAY_ISOLATION=none: agents run as this user, without isolation"
      })
      assert.match(stderr, /^slipway: agents cannot run here: Postgres\.[^\n]*\n$/u)
    }).pipe(Effect.scoped), LONG)

  it.live("asks GitHub about the App: its name and where it is installed, or what is wrong with it", () =>
    Effect.gen(function*() {
      const github = yield* GitHubServer.start()
      const keys = yield* folder
      const files = Object.fromEntries(["right", "other", "none"].map((name) => [name, path.join(keys, name)]))
      writeFileSync(files["right"] ?? "", github.app.privateKey)
      writeFileSync(
        files["other"] ?? "",
        generateKeyPairSync("rsa", {
          modulusLength: 2048,
          privateKeyEncoding: { type: "pkcs1", format: "pem" },
          publicKeyEncoding: { type: "pkcs1", format: "pem" }
        }).privateKey
      )
      writeFileSync(files["none"] ?? "", "no key")
      const data = yield* folder
      /** Without a database or isolation to look for, which takes seconds. */
      const asked = Effect.fnUntraced(function*(wrong: Record<string, string>) {
        const { stderr, stdout } = yield* run(data, ["doctor", "--json"], {
          SLIPWAY_ISOLATION: "none",
          DATABASE_URL: "postgres://stranger@127.0.0.1:1/none",
          SLIPWAY_GITHUB_APP_ID: String(github.app.appId),
          SLIPWAY_GITHUB_PRIVATE_KEY_FILE: files["right"] ?? "",
          SLIPWAY_GITHUB_API_URL: github.apiUrl,
          ...wrong
        })
        const finding: Finding | undefined = JSON.parse(stdout).find(({ what }: Finding) => what === "source host")
        if (finding?.state === "missing") assert.include(stderr, "source host")
        return finding
      })
      const { host } = new URL(github.apiUrl)
      assert.deepInclude(yield* asked({}), {
        state: "note",
        detail: `GitHub App Slipway at ${host}, installed nowhere yet. Install it: ${github.url}/apps/slipway/installations/new`
      })
      github.app.install("Acme")
      assert.deepInclude(yield* asked({}), { state: "ok", detail: `GitHub App Slipway at ${host}, 1 installation` })

      const wrong: ReadonlyArray<readonly [Record<string, string>, RegExp]> = [
        [{ SLIPWAY_GITHUB_APP_ID: "4712" }, /Integration not found.* Check SLIPWAY_GITHUB_APP_ID and SLIPWAY_GITHUB_PRIVATE_KEY_FILE\.$/u],
        [{ SLIPWAY_GITHUB_PRIVATE_KEY_FILE: files["other"] ?? "" },
          /could not be decoded.* Check SLIPWAY_GITHUB_APP_ID and SLIPWAY_GITHUB_PRIVATE_KEY_FILE\.$/u],
        [{ SLIPWAY_GITHUB_PRIVATE_KEY_FILE: files["none"] ?? "" },
          /^Its private key is no PEM file.* Check SLIPWAY_GITHUB_PRIVATE_KEY_FILE /u],
        [{ SLIPWAY_GITHUB_PRIVATE_KEY_FILE: path.join(keys, "absent") },
          /^SLIPWAY_GITHUB_PRIVATE_KEY_FILE must be a file that this process can read/u],
        [{ SLIPWAY_GITHUB_API_URL: github.url }, /Not Found.* Check SLIPWAY_GITHUB_API_URL,/u],
        [{ SLIPWAY_GITHUB_API_URL: "http://127.0.0.1:1" },
          /^The connection to 127\.0\.0\.1:1 failed \([\w ]+\)\. Check SLIPWAY_GITHUB_API_URL,/u]
      ]
      for (const [settings, detail] of wrong) {
        const found = yield* asked(settings)
        assert.strictEqual(found?.state, "missing", JSON.stringify(settings))
        assert.match(found?.detail ?? "", detail)
      }
    }).pipe(Effect.scoped), LONG)

  it.live("says whether people can sign in with GitHub, and the callback URL to register, or what is wrong", () =>
    Effect.gen(function*() {
      const github = yield* GitHubServer.start()
      const { clientId, clientSecret } = github.users
      const data = yield* folder
      const file = (name: string, text: string) => {
        writeFileSync(path.join(data, name), text)
        return path.join(data, name)
      }
      const right = file("right", `${clientSecret}\n`)
      const asked = Effect.fnUntraced(function*(settings: Record<string, string>) {
        const { stderr, stdout } = yield* run(data, ["doctor", "--json"], {
          SLIPWAY_ISOLATION: "none",
          DATABASE_URL: "postgres://stranger@127.0.0.1:1/none",
          SLIPWAY_GITHUB_API_URL: github.apiUrl,
          ...settings
        })
        assert.notInclude(stdout + stderr, clientSecret)
        const finding: Finding | undefined = JSON.parse(stdout).find(({ what }: Finding) => what === "sign-in")
        assert.strictEqual(stderr.includes("sign-in"), finding?.state === "missing")
        return finding
      })
      const given = { SLIPWAY_GITHUB_CLIENT_ID: clientId, SLIPWAY_GITHUB_CLIENT_SECRET_FILE: right }
      const { host } = new URL(github.apiUrl)
      assert.deepInclude(yield* asked({}), { state: "ok", detail: "not with GitHub: SLIPWAY_GITHUB_CLIENT_ID is not set" })
      for (
        const [settings, address] of [[{}, "http://127.0.0.1:0"], [{ SLIPWAY_PUBLIC_URL: "https://slipway.example.com/" },
          "https://slipway.example.com"]] as const
      ) {
        assert.deepInclude(yield* asked({ ...given, ...settings }), {
          state: "ok",
          detail: `with GitHub at ${host}; the callback URL of its App must be ${address}/sign-in/github/callback`
        })
      }

      const wrong: ReadonlyArray<readonly [Record<string, string>, Finding["state"], RegExp]> = [
        [{ SLIPWAY_GITHUB_CLIENT_ID: "Iv1" }, "missing", /^GitHub does not know the client id\. Check SLIPWAY_GITHUB_CLIENT_ID, /u],
        [{ SLIPWAY_GITHUB_CLIENT_SECRET_FILE: file("other", "0".repeat(40)) }, "missing",
          /passed are incorrect\. Check SLIPWAY_GITHUB_CLIENT_ID, SLIPWAY_GITHUB_CLIENT_SECRET_FILE and /u],
        [{ SLIPWAY_GITHUB_CLIENT_SECRET_FILE: path.join(data, "absent") }, "missing",
          /^SLIPWAY_GITHUB_CLIENT_SECRET_FILE must be a file that this process can read/u],
        [{ SLIPWAY_GITHUB_CLIENT_SECRET_FILE: file("two", `${clientSecret} ${clientSecret}`) }, "missing",
          /must be a file with a client secret and nothing else/u],
        [{ SLIPWAY_GITHUB_CLIENT_SECRET_FILE: file("empty", "\n") }, "missing", /must be a file with a client secret and nothing else/u],
        [{ SLIPWAY_GITHUB_API_URL: "http://127.0.0.1:1" }, "note",
          /^The connection to 127\.0\.0\.1:1 failed \([\w ]+\)\. Check SLIPWAY_GITHUB_API_URL,/u],
        [{ SLIPWAY_GITHUB_API_URL: "http://ghe.example.com/api/v3" }, "missing", /must start with https:/u]
      ]
      for (const [settings, state, detail] of wrong) {
        const found = yield* asked({ ...given, ...settings })
        assert.strictEqual(found?.state, state, JSON.stringify(settings))
        assert.match(found?.detail ?? "", detail)
      }
    }).pipe(Effect.scoped), LONG)

  it.live(
    "says whether people can sign in with OpenID Connect, and the addresses to register, or what is wrong",
    () =>
      Effect.gen(function*() {
        const oidc = yield* OidcServer.start({ redirectUri: "https://slipway.example.com/sign-in/oidc/callback" })
        const data = yield* folder
        const file = (name: string, text: string) => {
          writeFileSync(path.join(data, name), text)
          return path.join(data, name)
        }
        const given = {
          SLIPWAY_ISOLATION: "none",
          DATABASE_URL: "postgres://stranger@127.0.0.1:1/none",
          SLIPWAY_PUBLIC_URL: "https://slipway.example.com",
          SLIPWAY_OIDC_ISSUER: oidc.issuer,
          SLIPWAY_OIDC_CLIENT_ID: oidc.clientId,
          SLIPWAY_OIDC_CLIENT_SECRET_FILE: file("right", oidc.clientSecret)
        }
        const asked = Effect.fnUntraced(function*(settings: Record<string, string>) {
          const { stderr, stdout } = yield* run(data, ["doctor", "--json"], { ...given, ...settings })
          assert.notInclude(stdout + stderr, oidc.clientSecret)
          const findings: ReadonlyArray<Finding> = JSON.parse(stdout)
          return findings.find(({ detail, what }) => what === "sign-in" && !detail.includes("GitHub"))
        })
        assert.deepInclude(yield* asked({}), {
          state: "ok",
          detail: `with OpenID Connect at ${new URL(oidc.issuer).host}; the client's redirect URI must be ` +
            "https://slipway.example.com/sign-in/oidc/callback, and that after signing out https://slipway.example.com/sign-in"
        })
        const wrong: ReadonlyArray<readonly [Record<string, string>, Finding["state"], RegExp]> = [
          [{ SLIPWAY_OIDC_CLIENT_SECRET_FILE: file("other", "wrong") }, "missing", /refuses the service.* Check SLIPWAY_OIDC_ISSUER, /u],
          [{ SLIPWAY_OIDC_CLIENT_SECRET_FILE: path.join(data, "absent") }, "missing", /^SLIPWAY_OIDC_CLIENT_SECRET_FILE must be a file/u],
          [{ SLIPWAY_OIDC_ISSUER: `${oidc.issuer}/other` }, "missing", /has no metadata of OpenID Connect there\./u],
          [{ SLIPWAY_OIDC_ISSUER: "http://127.0.0.1:1" }, "note",
            /^The connection to 127\.0\.0\.1:1 failed .* Check SLIPWAY_OIDC_ISSUER, /u]
        ]
        for (const [settings, state, detail] of wrong) {
          const found = yield* asked(settings)
          assert.strictEqual(found?.state, state, JSON.stringify([settings, found]))
          assert.match(found?.detail ?? "", detail)
        }
      }).pipe(Effect.scoped),
    LONG
  )
})
