/** A service with repositories of its machine, worked on by the offline agent, and what many tests of its pages do and wait for. */
import { assert } from "@effect/vitest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import type { Locator, Page } from "playwright-core"
import * as SampleRepository from "../../src/service/SampleRepository.ts"
import { folder } from "../commands/SlipwayProcess.ts"
import { Browser } from "./Browser.ts"

/** A branch of each repository: git lets it be one. */
export const HOSTILE_BRANCH = "<script>alert(1)</script>-\u202egnp.exe"

/** The service with repositories of these names, of one content. */
export const layer = (names: ReadonlyArray<string> = ["acme/shop"], settings: Readonly<Record<string, string>> = {}) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const made = yield* folder
    yield* SampleRepository.make(made)
    execFileSync("git", ["branch", HOSTILE_BRANCH], { cwd: made })
    for (const name of names) yield* (yield* LocalRepositories).register(RepoName.make(name), made)
  })).pipe(Layer.provideMerge(Browser.layer(settings)))

/** Requests of programs with the service's key. */
export const api = Effect.map(Browser, ({ server }) => {
  const ask = async (method: string, address: string, body?: unknown) => {
    const response = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, {
      method,
      headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    assert.isBelow(response.status, 300, await response.clone().text())
    return await response.json()
  }
  return {
    create: async (prompt: string, more: object = {}): Promise<string> =>
      (await ask("POST", "", { repos: [{ fullName: "acme/shop" }], title: "Try it", prompt, ...more })).id,
    send: (id: string, prompt: string, more: object = {}) => ask("POST", `/${id}/messages`, { prompt, ...more }),
    terminate: (id: string) => ask("POST", `/${id}/terminate`),
    publish: (id: string) => ask("POST", `/${id}/pull-request`),
    /** All events of the log, as they come. */
    events: async (id: string): Promise<ReadonlyArray<unknown>> => {
      const events: Array<unknown> = []
      for (let after = "0";;) {
        const page = await ask("GET", `/${id}/events?limit=100&after=${after}`)
        events.push(...page.data)
        if (page.data.length === 0) return events
        after = page.nextCursor
      }
    }
  }
})

/** For `create`: the agent asks first. */
export const ASKS = { toolApprovalMode: "prompt" }

// ---------------------------------------------------------------------------------------------------------------
// Waiting for what a page shows

/** The texts of as many elements as are expected: a page begins before its slow parts are there. */
export const textsAre = async (shown: Locator, expected: ReadonlyArray<string>) => {
  if (expected.length > 0) await shown.nth(expected.length - 1).waitFor()
  assert.deepStrictEqual(await shown.allInnerTexts(), expected)
}

/** In the menu, which need not be open. */
export const turnIs = (page: Page, text: string) => page.locator("#turn", { hasText: text }).waitFor({ state: "attached" })
export const openMenu = (page: Page) => page.locator(".menu:not([open]) > summary").click()
export const connection = (page: Page, text: string) => page.locator("#connection", { hasText: text }).waitFor()

/** An item of the conversation that no person wrote. */
export const item = (page: Page, text: string) => page.locator(".item:not(.prompt)", { hasText: text }).first()

/** For pages without scripts: loads the page again until this text is on it. */
export const loadsUntil = async (page: Page, address: string, text: string) => {
  do await page.goto(address)
  while (!(await page.locator("main").innerText()).includes(text))
}
