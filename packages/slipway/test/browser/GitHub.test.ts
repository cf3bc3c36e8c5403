import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/adapters/testing/github/GitHubServer"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder } from "../commands/SlipwayProcess.ts"
import { Browser, inspect, memberNamed } from "./Browser.ts"

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
