import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, run, serve, type Server } from "../SlipwayProcess.ts"

const LONG = 300_000

/** Presses the button that the link leads to, and gives the status of the first page with the session it began. */
const signIn = (url: string, code: string) =>
  Effect.promise(async () => {
    const entered = await fetch(`${url}/sign-in`, { method: "POST", redirect: "manual", body: new URLSearchParams({ code }) })
    const cookie = entered.headers.get("set-cookie")?.split(";")[0]
    const page = cookie === undefined ? null : await fetch(`${url}/keys`, { redirect: "manual", headers: { cookie } })
    return [entered.status, page?.status, await page?.text(), cookie] as const
  })

/** Adds the sample repository with the button of the first page, and gives that page as it is then. */
const addSample = (url: string, cookie: string) =>
  Effect.promise(async () => {
    const read = async () => (await fetch(`${url}/sandboxes`, { headers: { cookie } })).text()
    const [, fields = ""] = /<form method="post" action="\/new\/sample">(.*)<\/form>/u.exec(await read()) ?? []
    const body = new URLSearchParams(
      Array.from(fields.matchAll(/name="(\w+)" value="([^"]*)"/gu), ([, name = "", value = ""]) => [name, value])
    )
    await fetch(`${url}/new/sample`, { method: "POST", headers: { cookie }, body })
    return read()
  })

/** The link that serving printed, if it did. */
const printed = ({ output }: Server) =>
  /^sign in +(\S+)#(\w{43}) {2}\(once, within 10 minutes; another: slipway sign-in-link\)$/mu.exec(output())

describe("slipway sign-in-link", () => {
  it.live(
    "prints a link that signs the owner, or who is named, in once; serving prints the first, and its page adds the sample repository",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const server = yield* serve(data, { SLIPWAY_ISOLATION: "none" })
        const [, at, first = ""] = printed(server) ?? []
        assert.strictEqual(at, `${server.url}/sign-in`)
        const [entered, page, text, cookie = ""] = yield* signIn(server.url, first)
        assert.deepStrictEqual([entered, page], [303, 200])
        assert.include(text, ">owner</a>")
        assert.deepStrictEqual((yield* signIn(server.url, first))[0], 400)
        assert.include(yield* addSample(server.url, cookie), `value="sample/shop"`)
        assert.match((yield* run(data, ["repos", "list"])).stdout, /^sample\/shop +\//mu)

        const { port } = new URL(server.url)
        const login = (settings: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
          run(data, ["sign-in-link", ...args], settings)
        const local = yield* login({ SLIPWAY_PORT: port })
        assert.deepStrictEqual([local.code, local.stderr], [0, ""])
        assert.match(
          local.stdout,
          new RegExp(`^${server.url}/sign-in#\\w{43}\\n\\nThe link signs user_\\w{26} in once, within 10 minutes\\.\\n$`, "u")
        )
        const named = yield* login({ SLIPWAY_PUBLIC_URL: "https://slipway.test/" })
        assert.match(named.stdout, /^https:\/\/slipway\.test\/sign-in#\w{43}\n/u)
        // Where the running service is, it has said itself.
        const elsewhere = yield* login({ SLIPWAY_PORT: "0" })
        assert.match(elsewhere.stdout, new RegExp(`^${server.url}/sign-in#\\w{43}\\n`, "u"))

        const { user } = JSON.parse((yield* run(data, ["members", "add", "ada-l", "--json"])).stdout)
        const { code, link, path, userId } = JSON.parse((yield* login({ SLIPWAY_PORT: "0" }, "--user", "Ada-L", "--json")).stdout)
        assert.deepStrictEqual([link, path, userId], [`${server.url}/sign-in#${code}`, "/sign-in", user.id])
        const [, refused, told] = yield* signIn(server.url, code)
        assert.strictEqual(refused, 403)
        assert.include(told, "slipway users approve ada-l")
        const { stdout: audited } = yield* run(data, ["audit", "--json"])
        const entries: ReadonlyArray<{ readonly action: string; readonly actor: unknown; readonly subjects: Record<string, string> }> = JSON
          .parse(audited)
        assert.deepStrictEqual(
          entries.filter(({ subjects }) => subjects["userId"] === user.id).slice(-3).map(({ action, actor }) => [action, actor]),
          [["sign_in_link.made", { _tag: "Operator" }], ["sign_in_link.used", { _tag: "System" }], ["session.started", {
            _tag: "User",
            userId: user.id
          }]]
        )
        assert.notInclude(audited, code)

        const former = yield* run(data, ["login"], { SLIPWAY_PORT: "0" })
        assert.strictEqual(former.code, 0)
        assert.match(former.stdout, /\/sign-in#\w{43}\n/u)
        assert.strictEqual(former.stderr, "slipway login is now slipway sign-in-link. To sign in this command: slipway auth login\n")

        const missing = yield* login({}, "--user", "unknown")
        assert.deepStrictEqual(missing, { code: 1, stdout: "", stderr: "slipway: There is no user unknown. See: slipway users list\n" })
      }),
    LONG
  )

  it.live(
    "is not needed where people sign in with GitHub; an address that browsers keep no session at is warned of",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const secret = path.join(data, "client-secret")
        writeFileSync(secret, "0123456789abcdef0123456789abcdef01234567")
        const github = { SLIPWAY_GITHUB_CLIENT_ID: "Iv1.0123456789abcdef", SLIPWAY_GITHUB_CLIENT_SECRET_FILE: secret }
        const server = yield* serve(data, { SLIPWAY_ISOLATION: "none", SLIPWAY_PUBLIC_URL: "http://10.0.0.5:4000", ...github })
        assert.isNull(printed(server))
        assert.include(server.output(), "people cannot stay signed in at http://10.0.0.5:4000")
      }),
    LONG
  )
})
