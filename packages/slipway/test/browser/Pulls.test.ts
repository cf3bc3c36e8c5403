/** Pull requests of repositories on this machine: their list, what they change, and merging and closing them. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const HOSTILE = "</a><script>alert(1)</script> [x](javascript:alert(1)) \u202e\u001b[31m"

const rowOf = (page: Page, title: string) => page.locator("#list tbody tr").filter({ hasText: title })

const pullsOf = Effect.map(Shop.api, ({ create, publish }) => ({
  /** A sandbox whose turn is over and whose pull request is open. */
  pull: async (page: Page, title: string, prompt: string): Promise<string> => {
    const id = await create(prompt, { title })
    await Shop.loadsUntil(page, `/sandboxes/${id}`, "Done")
    await publish(id)
    return id
  }
}))

layer(Shop.layer(), { excludeTestServices: true })("pull requests", (it) => {
  it.effect("are listed as they come, opened by keys, read and merged", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { pull } = yield* pullsOf
      const link = yield* linkFor()
      yield* visit(async (page, context) => {
        await signIn(page, link)
        await page.getByRole("link", { name: "Pull requests", exact: true }).click()
        await page.getByText("No pull requests yet.").waitFor()
        await inspect(page, "pulls-none")
        const other = await context.newPage()
        await pull(
          other,
          HOSTILE,
          `[[write path=docs/"<b>hostile</b>.md content=${HOSTILE.replaceAll("]", "")}]] [[write path=README.md content=hello]]`
        )
        await other.close()
        // The list shows it by itself.
        const row = rowOf(page, "<script>alert(1)</script>")
        await row.locator(".state", { hasText: "Draft" }).waitFor()
        await row.locator(".added-count").waitFor()
        await row.getByText("None", { exact: true }).waitFor()
        await inspect(page, "pulls")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.getByRole("heading", { level: 1, name: "<script>alert(1)</script>" }).waitFor()
        assert.match(page.url(), /\/local\/acme\/shop\/pulls\/1$/u)
        await page.locator("table.diff tr.added", { hasText: "hello" }).waitFor()
        assert.include(await page.locator("main").innerText(), "<b>hostile</b>")
        assert.match(await page.locator(".commits").innerText(), /^[0-9a-f]{7} <\/a><script>alert/u)
        await page.getByText("Opened by Slipway from sandbox").waitFor()
        await inspect(page, "pull")
        // Viewed files are folded and left behind, one after the other.
        const heads = page.locator(".changed-file > summary")
        await page.keyboard.press("]")
        await page.keyboard.press("v")
        await page.locator("#viewed", { hasText: "1 of 2 viewed" }).waitFor()
        assert.isTrue(await heads.nth(1).evaluate((head) => head === document.activeElement))
        assert.deepStrictEqual(
          await heads.evaluateAll((all) => all.map(({ parentElement }) => parentElement?.hasAttribute("open"))),
          [false, true]
        )
        await page.keyboard.press("v")
        await page.locator("#viewed", { hasText: "2 of 2 viewed" }).waitFor()
        // A viewed file stays so.
        await page.keyboard.press("v")
        await page.locator("#viewed", { hasText: "2 of 2 viewed" }).waitFor()
        await page.getByRole("checkbox", { name: "Viewed README.md" }).uncheck()
        await page.getByRole("link", { name: "Send back to the agent…" }).click()
        await page.getByLabel("What should change?").waitFor()
        await inspect(page, "pull-send-back")
        await page.getByRole("link", { name: "Cancel" }).click()
        await page.getByRole("link", { name: "Merge into main…" }).click()
        await inspect(page, "pull-merge")
        await page.getByRole("button", { name: "Merge into main" }).focus()
        await page.keyboard.press("Enter")
        await page.getByText("Merged.", { exact: true }).waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Merge into main" }).count(), 0)
        await page.locator("table.diff tr.added", { hasText: "hello" }).waitFor()
        await inspect(page, "pull-merged")
        await page.goto("/sandboxes")
        const listed = page.getByRole("row").filter({ hasText: "<script>alert(1)</script>" })
        await listed.locator(".pull-link", { hasText: "#1 merged" }).waitFor()
        await listed.locator(".added-count").waitFor()
        await listed.getByRole("link", { name: "#1" }).click()
        await page.waitForURL("**/local/acme/shop/pulls/1")
      })
    }))

  it.effect("take comments on lines with a request for changes, which the agent works on", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { pull } = yield* pullsOf
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await pull(page, "Add a cart", "[[write path=cart.txt content=one]]")
        await page.goto("/pulls?state=draft")
        await rowOf(page, "Add a cart").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("button", { name: "Comment on line 1" }).click()
        await page.getByLabel("Comment on cart.txt:1").fill("More, please. [[write path=cart.txt content=several]]")
        await inspect(page, "pull-line-comment")
        await page.getByRole("button", { name: "Add to message" }).click()
        await page.getByText("Added to your message.").waitFor()
        assert.match(await page.getByLabel("What should change?").inputValue(), /^cart\.txt:1\n> one\n\nMore, please\. /u)
        await page.getByRole("button", { name: "Request changes" }).click()
        await page.waitForURL("**/local/acme/shop/pulls/*?done=requested")
        await inspect(page, "pull-changes-requested")
        const { pathname } = new URL(page.url())
        const changed = page.locator("table.diff tr.added", { hasText: "several" })
        do await page.goto(pathname)
        while ((await changed.count()) === 0)
        await page.goto(`/sandboxes/${id}`)
        await page.getByText("A review of the pull request of acme/shop").first().waitFor()
        await inspect(page, "sandbox-feedback")
      })
    }))

  it.effect("say of a conflict what to do, and are closed, without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { pull } = yield* pullsOf
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await pull(page, "One way", "[[write path=way.md content=one]]")
        await pull(page, "Other way", "[[write path=way.md content=other]]")
        await pull(page, "Last way", "[[write path=way.md content=last]]")
        await page.goto("/pulls?state=draft")
        await rowOf(page, "Last way").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("link", { name: "Send back to the agent…" }).click()
        await page.getByLabel("What should change?").fill("[[say It is another way now.]]")
        await page.getByRole("button", { name: "Send" }).click()
        await page.waitForURL("**/sandboxes/*?done=sent")
        await Shop.loadsUntil(page, new URL(page.url()).pathname, "It is another way now.")
        await page.goto("/pulls?state=draft")
        await rowOf(page, "One way").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("link", { name: "Merge into main…" }).click()
        await page.getByRole("button", { name: "Merge into main" }).click()
        await page.getByText("Merged.", { exact: true }).waitFor()
        await page.goto("/pulls")
        await page.getByRole("link", { name: /^Draft \d+$/u }).click()
        await page.waitForURL("**/pulls?state=draft")
        assert.strictEqual(await rowOf(page, "One way").count(), 0)
        await rowOf(page, "Other way").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("link", { name: "Merge into main…" }).click()
        await page.getByRole("button", { name: "Merge into main" }).click()
        await page.getByText("It conflicts with main.").waitFor()
        await page.getByText("git merge --no-ff").waitFor()
        await page.getByRole("link", { name: "Back to the pull request" }).click()
        await page.getByRole("button", { name: "Close", exact: true }).click()
        await page.getByText("Closed.", { exact: true }).waitFor()
        assert.strictEqual(await page.locator("#state").innerText(), "Closed")
        await page.goto("/pulls?state=closed")
        await rowOf(page, "Other way").locator(".state", { hasText: "Closed" }).waitFor()
      }, { options: { javaScriptEnabled: false }, refused: [409] })
      // The view of a person whose page was loaded before.
      const again = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, again)
        await pull(page, "Third way", "[[write path=a.md content=one]]")
        await page.goto("/pulls?state=draft")
        const other = await page.context().newPage()
        await other.goto("/pulls?state=draft")
        for (const one of [page, other]) await rowOf(one, "Third way").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("link", { name: "Merge into main…" }).click()
        await other.getByRole("button", { name: "Close", exact: true }).click()
        await other.getByText("Closed.", { exact: true }).waitFor()
        await page.getByRole("button", { name: "Merge into main" }).click()
        await page.getByText("This pull request was closed without merging.").waitFor()
        await inspect(page, "pull-refused")
        await page.goto("/pulls?state=draft")
        await rowOf(page, "Last way").getByRole("rowheader").getByRole("link").click()
        await page.getByRole("link", { name: "Merge into main…" }).click()
        await page.getByRole("button", { name: "Merge into main" }).click()
        await page.getByText("It conflicts with main.").waitFor()
        await inspect(page, "pull-conflict")
      }, { refused: [409] })
    }))
})
