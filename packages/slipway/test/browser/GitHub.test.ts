import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, gitHubApp } from "../commands/SlipwayProcess.ts"
import { Browser, inspect, linkFor, memberNamed, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const HOSTILE = "</li><script>alert(1)</script> ![x](https://spy.test/x.png) [y](javascript:alert(1)) \u202e\u001b[31m"

it.live("somebody signs in with GitHub by a button, and comes back to where they were", () =>
  Effect.gen(function*() {
    const { apiUrl, users } = yield* GitHubServer.start()
    const secretFile = path.join(yield* folder, "client-secret")
    writeFileSync(secretFile, users.clientSecret, { mode: 0o600 })
    const settings = {
      SLIPWAY_GITHUB_CLIENT_ID: users.clientId,
      SLIPWAY_GITHUB_CLIENT_SECRET_FILE: secretFile,
      SLIPWAY_GITHUB_API_URL: apiUrl
    }
    yield* Effect.gen(function*() {
      const { server, visit } = yield* Browser
      users.callbackUrls.push(`${server.url}/sign-in/github/callback`)
      yield* memberNamed("Ada-L")
      yield* visit(async (page) => {
        await page.goto("/keys")
        await inspect(page, "sign-in-github")
        await page.getByRole("link", { name: "Sign in with GitHub" }).click()
        await page.waitForURL("**/keys")
        await page.getByRole("link", { name: "Ada-L" }).waitFor()
      })
      users.agrees = false
      yield* visit(async (page) => {
        await page.goto("/sign-in")
        await page.getByRole("link", { name: "Sign in with GitHub" }).click()
        await page.getByText("You are not signed in").waitFor()
        await inspect(page, "sign-in-denied")
        await page.getByRole("link", { name: "Begin again" }).click()
        assert.strictEqual(await page.getByRole("heading", { level: 1 }).innerText(), "Sign in")
      }, { refused: [403] })
    }).pipe(Effect.provide(Browser.layer(settings)))
  }).pipe(Effect.scoped))

it.live(
  "a pull request on GitHub shows its checks and what people say of it, as they come, with and without scripts",
  () =>
    Effect.gen(function*() {
      const github = yield* GitHubServer.start({ readsBeforeMergeable: 0 })
      github.app.install("Acme")
      const there = yield* github.repository("Acme/Shop", { "README.md": "# Shop\n" })
      const settings = {
        ...gitHubApp(yield* folder, github)
      }
      yield* Effect.gen(function*() {
        const { visit } = yield* Browser
        const { create, publish } = yield* Shop.api
        const [link, again] = [yield* linkFor(), yield* linkFor()]
        const started = yield* visit(async (page) => {
          await signIn(page, link)
          const id = await create("[[write path=a.md content=one]]", { title: "Add a", repos: [{ fullName: "Acme/Shop" }] })
          await page.goto(`/sandboxes/${id}?view=pull`)
          await Shop.turnIs(page, "Done")
          await publish(id)
          const pull = page.locator("#pulls")
          await pull.getByRole("link", { name: "#1 Add a" }).waitFor()
          await pull.getByText("No checks").waitFor()
          const { headSha } = there.pulls[0] ?? assert.fail("there is no pull request")
          for (let i = 1; i <= 22; i++) there.comment(1, { body: `Remark **number ${i}**.`, user: { id: 7, login: "mona" } })
          there.comment(1, { body: "Use `const`:\n\n```ts\nconst a = 1\n```", path: "src/a.ts", line: 12 })
          there.comment(1, { body: HOSTILE, path: `src/${"long-name-".repeat(20)}<b>.ts`, line: 3 })
          there.checkRun(headSha, { name: "build", status: "completed", conclusion: "success" })
          there.checkRun(headSha, { name: "test", status: "in_progress" })
          // The page is not loaded again.
          await pull.getByText("number 22").waitFor({ timeout: 90_000 })
          assert.strictEqual(await pull.locator(".pull-comment").count(), 20)
          await pull.getByRole("link", { name: "4 more on" }).waitFor()
          await pull.locator(".state", { hasText: "Running" }).waitFor()
          await pull.locator(".place", { hasText: "src/a.ts:12" }).waitFor()
          const text = await pull.innerText()
          assert.include(text, "<script>alert(1)</script>")
          assert.include(text, "RIGHT-TO-LEFT OVERRIDE")
          assert.strictEqual(await pull.locator("img, script").count(), 0)
          assert.match(await pull.locator(".comments time").last().innerText(), /ago|just now|in \d/u)
          await page.goto(`/sandboxes/${id}?view=pull`)
          await pull.getByText("number 22").waitFor()
          await inspect(page, "pull-comments")

          there.checkRun(headSha, { name: "lint", status: "completed", conclusion: "failure" })
          await page.goto("/pulls")
          const row = page.getByRole("row").filter({ hasText: "Add a" })
          await row.locator("[data-label=Checks] .state").waitFor()
          await inspect(page, "pulls-checks")
          return id
        })
        yield* visit(async (page) => {
          await signIn(page, again)
          await Shop.loadsUntil(page, `/sandboxes/${started}?view=pull`, "number 22")
          assert.strictEqual(await page.locator(".pull-comment").count(), 20)
          await page.goto("/pulls")
          await page.getByLabel("Checks").selectOption("passing")
          await page.getByRole("button", { name: "Filter" }).click()
          await page.getByText("No pull requests match").waitFor()
          const known = await page.goto("/pulls").then(() => page.locator("[data-label=Checks]").innerText())
          await page.getByLabel("Checks").selectOption(known.toLowerCase())
          await page.getByRole("button", { name: "Filter" }).click()
          await page.getByRole("row").filter({ hasText: "Add a" }).waitFor()
        }, { options: { javaScriptEnabled: false } })
      }).pipe(Effect.provide(Browser.layer(settings)))
    }).pipe(Effect.scoped)
)
