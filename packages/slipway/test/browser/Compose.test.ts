import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

layer(Shop.layer(["acme/shop", "acme/docs"]), { excludeTestServices: true })("the form of a new sandbox", (it) => {
  it.effect("starts work, keeps a draft until it is sent, and remembers what was chosen", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        const [prompt, repo] = [page.getByLabel("What is to be done?"), page.getByLabel("Repository", { exact: true })]
        await inspect(page, "new")
        await prompt.fill("[[say Hello]] <b>draft</b>")
        await repo.fill("acme/shop")
        await page.getByText("More repositories").click()
        await page.getByLabel("Repository 2").fill("acme/docs")
        await page.getByText("Model and approvals").click()
        await page.getByLabel("Effort").selectOption("high")
        await page.getByLabel("Asks first.").check()
        await page.reload()
        assert.strictEqual(await prompt.inputValue(), "[[say Hello]] <b>draft</b>")
        assert.strictEqual(await page.getByLabel("Repository 2").inputValue(), "acme/docs")
        await page.getByText("Model and approvals: offline/demo, effort high, asks first").waitFor()
        await inspect(page, "new-draft")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("heading", { level: 1, name: "[[say Hello]] <b>draft</b>" }).waitFor()
        await page.goto("/new")
        assert.strictEqual(await prompt.inputValue(), "")
        assert.strictEqual(await repo.inputValue(), "acme/shop")
        await page.getByText("Model and approvals: offline/demo, effort high, asks first").waitFor()
      })
    }))

  it.effect("suggests the repositories that fit what is typed", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByLabel("Repository", { exact: true }).fill("docs")
        await page.waitForFunction(() =>
          Array.from(document.querySelectorAll("#repositories option"), (option) => option.getAttribute("value")).join() === "acme/docs"
        )
      })
    }))

  it.effect("does all of it without scripts, and names the field that is wrong", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByLabel("What is to be done?").fill("Try this")
        await page.getByLabel("Repository", { exact: true }).fill("no repository")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").filter({ hasText: "Repository: A repository is named owner/name." }).waitFor()
        assert.strictEqual(await page.getByLabel("What is to be done?").inputValue(), "Try this")
        await page.getByLabel("Repository", { exact: true }).fill("acme/absent")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").filter({ hasText: "slipway repos add acme/absent PATH" }).waitFor()
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("heading", { level: 1, name: "Try this" }).waitFor()
      }, { options: { javaScriptEnabled: false }, refused: [400, 403] })
    }))
})
