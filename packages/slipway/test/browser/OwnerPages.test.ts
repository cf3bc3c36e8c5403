/** Pages on which owners choose what pull requests of a repository get, and what creates sandboxes by itself. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const headingOf = (page: Page) => page.getByRole("heading", { level: 1 }).innerText()
const valueOf = (page: Page, label: string) => page.getByLabel(label, { exact: true }).inputValue()

layer(Shop.layer(), { excludeTestServices: true })("pages of owners", (it) => {
  it.effect("have the labels, reviewers and feedback of a repository, which change as a whole or not at all", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/repositories")
        await page.getByRole("link", { name: "Settings: acme/shop" }).click()
        assert.strictEqual(await headingOf(page), "Settings of acme/shop")
        const address = page.url()
        await inspect(page, "repository-settings-none")
        await page.getByLabel("Labels", { exact: true }).fill("agent\nneeds review")
        await page.getByLabel("Reviewers", { exact: true }).fill("ada\nacme/payments")
        await page.getByLabel("Name the sandbox's creator as co-author of commits").check()
        await page.getByLabel("Comments and reviews").selectOption("mention")
        await page.getByRole("button", { name: "Save settings" }).click()
        await page.getByText("Settings saved.").waitFor()
        await inspect(page, "repository-settings-saved")
        const saved = async () => [
          await valueOf(page, "Labels"),
          await valueOf(page, "Reviewers"),
          await page.getByLabel("Name the sandbox's creator as co-author of commits").isChecked(),
          await valueOf(page, "Comments and reviews")
        ]
        const wanted = ["agent\nneeds review", "ada\nacme/payments", true, "mention"]
        await page.goto(address)
        assert.deepStrictEqual(await saved(), wanted)

        await page.getByLabel("Labels", { exact: true }).fill("other")
        await page.getByLabel("Reviewers", { exact: true }).fill("<b>x</b>")
        await page.getByRole("button", { name: "Save settings" }).click()
        await page.getByRole("alert").getByText("Nothing changed.").waitFor()
        await inspect(page, "repository-settings-refused")
        await page.goto(address)
        assert.deepStrictEqual(await saved(), wanted)
      }, { refused: [400] })
    }))

  it.effect("have an automation from its form and its secret, through a run, to its end", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/automations")
        assert.strictEqual(await headingOf(page), "Automations")
        await inspect(page, "automations-none")
        await page.getByLabel("Name", { exact: true }).fill("Nightly <b>")
        await page.getByLabel("Starts by").selectOption("webhook")
        await page.getByLabel("Repositories", { exact: true }).fill("acme/shop")
        await page.getByLabel("Task").fill("Fix {{issue.title}}.")
        await page.getByRole("button", { name: "Create automation" }).click()
        await page.getByRole("alert").getByText("unknown placeholder {{issue.title}}").waitFor()
        await inspect(page, "automation-refused")
        assert.strictEqual(await valueOf(page, "Name"), "Nightly <b>")
        await page.getByLabel("Task").fill("[[say Done]] {{payload.title}}")
        await page.getByRole("button", { name: "Create automation" }).click()
        assert.match(await page.getByLabel("Secret").inputValue(), /^whsec_/u)
        await inspect(page, "automation-created")

        await page.goto("/automations")
        await page.getByRole("link", { name: "Nightly <b>" }).click()
        assert.strictEqual(await headingOf(page), "Nightly <b>")
        await page.getByRole("button", { name: "Run now" }).click()
        await page.locator("table.rows a[href^='/sandboxes/c_']").waitFor()
        await inspect(page, "automation-run")
        await page.getByRole("button", { name: "Pause" }).click()
        await page.getByRole("button", { name: "Enable" }).waitFor()
        await inspect(page, "automation-paused")
        await page.getByRole("link", { name: "Remove" }).click()
        await inspect(page, "automation-remove")
        await page.getByRole("button", { name: "Remove automation" }).click()
        await page.getByRole("heading", { name: "Automations", level: 1 }).waitFor()
        // The sandbox of its run has its name, and stays.
        assert.strictEqual(await page.locator("main a[href^='/automations/']").count(), 0)
      }, { refused: [400] })
    }))
})
