/** Questions of the agent on the page of its sandbox: answered while the page stays as it is, and dismissed without scripts. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const ASKS = "[[say Begun.]] [[ask Which one? | first | second || multiple=true Which others? | third | fourth]] [[say Done so.]]"

layer(Shop.layer(), { excludeTestServices: true })("the question of an agent", (it) => {
  it.effect("keeps what was chosen and written while more comes, and the agent hears it", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create(ASKS)
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        const card = page.locator("#questions .question")
        await card.waitFor()
        await Shop.turnIs(page, "Needs you")
        await inspect(page, "question")
        const [second, third] = [card.getByLabel("second", { exact: true }), card.getByLabel("third", { exact: true })]
        await second.check()
        await third.check()
        await card.getByLabel("Also, in your own words").fill("and <b>more</b>")
        await send(id, "[[say Next.]]", { whenBusy: "queue" })
        await page.locator("#queue .waiting > li", { hasText: "Next." }).waitFor()
        assert.deepStrictEqual([await second.isChecked(), await third.isChecked()], [true, true])
        await card.getByRole("button", { name: "Answer", exact: true }).click()
        await page.getByText("Answered.", { exact: true }).waitFor()
        await card.waitFor({ state: "detached" })
        await Shop.item(page, "Which one? You said: second.").waitFor()
        await Shop.item(page, "Which others? You said: third, and <b>more</b>.").waitFor()
        await Shop.item(page, "Next.").waitFor()
        await Shop.turnIs(page, "Done")
        assert.isFalse(await page.locator("#questions").isVisible())
      })
    }))

  it.effect("needs no JavaScript: a form without an answer is refused, and a dismissal lets the agent go on", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create(ASKS)
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "The agent asks 2 questions")
        await page.getByRole("button", { name: "Answer", exact: true }).click()
        await page.getByText("Choose an option or write an answer.").waitFor()
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "The agent asks 2 questions")
        await page.getByRole("button", { name: "Dismiss without an answer" }).click()
        await page.getByText("Dismissed. The agent goes on without an answer.", { exact: true }).waitFor()
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Which one? No person answered.")
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Done so.")
      }, { refused: [400], options: { javaScriptEnabled: false } })
    }))
})
