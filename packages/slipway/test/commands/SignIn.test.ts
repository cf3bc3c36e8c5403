/** The whole way of a person through GitHub into a session. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import * as OidcServer from "@slipway/oidc/testing/OidcServer"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, freePort, run, serve } from "./SlipwayProcess.ts"

const cookiesOf = (response: Response) => response.headers.getSetCookie().map((line) => line.split(";")[0]).join("; ")

const visit = (url: string, cookie = "") =>
  Effect.promise(() => fetch(url, { redirect: "manual", headers: cookie === "" ? {} : { cookie } }))

it.live(
  "signs in with GitHub whom an administrator added, makes a new user of a stranger, and shows no secret",
  () =>
    Effect.gen(function*() {
      const github = yield* GitHubServer.start()
      const { users } = github
      const data = yield* folder
      const secretFile = path.join(data, "client-secret")
      writeFileSync(secretFile, users.clientSecret, { mode: 0o600 })
      const server = yield* serve(data, {
        SLIPWAY_GITHUB_CLIENT_ID: users.clientId,
        SLIPWAY_GITHUB_CLIENT_SECRET_FILE: secretFile,
        SLIPWAY_GITHUB_API_URL: github.apiUrl
      })
      users.callbackUrls.push(`${server.url}/sign-in/github/callback`)
      assert.strictEqual((yield* run(data, ["members", "add", "Ada-L"])).code, 0)

      /** The browser, up to the answer that it gets when it is back. */
      const through = Effect.gen(function*() {
        const begun = yield* visit(`${server.url}/sign-in/github`)
        const asked = yield* visit(begun.headers.get("location") ?? "")
        const back = asked.headers.get("location") ?? ""
        assert.isTrue(back.startsWith(`${server.url}/sign-in/github/callback?`), back)
        return { answer: yield* visit(back, cookiesOf(begun)), back, cookie: cookiesOf(begun) }
      })
      const ada = yield* through
      assert.strictEqual(ada.answer.status, 303)
      assert.match(cookiesOf(ada.answer), /session=[0-9A-Za-z]{43}/u)
      const again = yield* visit(ada.back, ada.cookie)
      assert.strictEqual(again.status, 403)
      assert.notMatch(cookiesOf(again), /session=[0-9A-Za-z]/u)

      users.person = { ...users.person, id: 666, login: "ada-l" }
      assert.strictEqual((yield* through).answer.status, 303)
      users.agrees = false
      assert.strictEqual((yield* through).answer.status, 403)

      const listed: ReadonlyArray<Record<string, unknown>> = JSON.parse((yield* run(data, ["users", "list", "--json"])).stdout)
      assert.deepStrictEqual(listed.map(({ approvedAt, githubLogin, name }) => [name, githubLogin, approvedAt !== null]), [
        ["owner", null, true],
        ["Ada-L", null, false],
        ["Ada Lovelace", "ada-l", false]
      ])
      const told: ReadonlyArray<Record<string, unknown>> = JSON.parse((yield* run(data, ["audit", "--json"])).stdout)
      const actions = told.map(({ action }) => action)
      for (const action of ["user.bound", "user.renamed", "user.added", "session.started"]) assert.include(actions, action)

      const shown = server.output() + readFileSync(`/proc/${server.pid}/cmdline`, "utf8") + JSON.stringify([listed, told])
      for (const secret of [users.clientSecret, ...users.issued]) assert.notInclude(shown, secret)
      assert.isNotEmpty(users.issued)
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped)
)

it.live("does not start with a client secret that cannot be read", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const ended = yield* run(data, ["serve"], {
      SLIPWAY_GITHUB_CLIENT_ID: "Iv1",
      SLIPWAY_GITHUB_CLIENT_SECRET_FILE: path.join(data, "absent")
    })
    assert.strictEqual(ended.code, 1)
    assert.match(
      ended.stderr.trim().split("\n").at(-1) ?? "",
      /SLIPWAY_GITHUB_CLIENT_SECRET_FILE must be a file that this process can read/u
    )
  }).pipe(Effect.scoped))

it.live(
  "signs in with OpenID Connect whom a group lets in, in the group's role, refuses others, and shows no secret",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const port = yield* freePort
      const publicUrl = `http://127.0.0.1:${port}`
      const oidc = yield* OidcServer.start({ redirectUri: `${publicUrl}/sign-in/oidc/callback` })
      const secretFile = path.join(data, "client-secret")
      writeFileSync(secretFile, oidc.clientSecret, { mode: 0o600 })
      const server = yield* serve(data, {
        SLIPWAY_PORT: String(port),
        SLIPWAY_PUBLIC_URL: publicUrl,
        SLIPWAY_OIDC_ISSUER: oidc.issuer,
        SLIPWAY_OIDC_CLIENT_ID: oidc.clientId,
        SLIPWAY_OIDC_CLIENT_SECRET_FILE: secretFile,
        SLIPWAY_OIDC_ROLES: "staff=member,admins=owner"
      })
      const through = Effect.gen(function*() {
        const begun = yield* visit(`${publicUrl}/sign-in/oidc`)
        const back = yield* OidcServer.visit(begun.headers.get("location") ?? "", publicUrl)
        return yield* visit(back, cookiesOf(begun))
      })
      assert.include(yield* Effect.promise(async () => await (await fetch(`${publicUrl}/sign-in`)).text()), "href=\"/sign-in/oidc\"")
      const ada = yield* through
      assert.strictEqual(ada.status, 303)
      const session = cookiesOf(ada)
      assert.strictEqual((yield* visit(`${publicUrl}/keys`, session)).status, 200)

      oidc.person = { ...oidc.person, groups: ["visitors"] }
      assert.strictEqual((yield* through).status, 403)
      assert.strictEqual((yield* visit(`${publicUrl}/keys`, session)).status, 303)

      const listed: ReadonlyArray<Record<string, unknown>> = JSON.parse((yield* run(data, ["members", "list", "--json"])).stdout)
      assert.deepStrictEqual(listed.map(({ active, role }) => [role, active]), [["owner", true], ["member", false]])
      const told = (yield* run(data, ["audit", "--json"])).stdout
      for (const action of ["user.added", "user.approved", "member.added", "session.ended", "member.removed"]) assert.include(told, action)
      const shown = server.output() + readFileSync(`/proc/${server.pid}/cmdline`, "utf8") + told
      assert.notInclude(shown, oidc.clientSecret)
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped)
)
