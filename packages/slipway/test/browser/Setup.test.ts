/** The setup on the page of a sandbox, while it runs and afterwards. */
import { assert, layer } from "@effect/vitest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Page } from "playwright-core"
import { folder } from "../commands/SlipwayProcess.ts"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

/** A file that a setup waits for. */
class Gate extends Context.Service<Gate, string>()("slipway/test/Gate") {}

const makeRepository = (folder: string, environment: object) => {
  mkdirSync(path.join(folder, ".slipway"), { recursive: true })
  writeFileSync(path.join(folder, ".slipway/environment.json"), JSON.stringify(environment))
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", folder, ...args], { stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
}

/** The service with two repositories of its machine: of `acme/waits` the setup waits for the gate, of `acme/broken` it fails. */
const service = Layer.effect(
  Gate,
  Effect.gen(function*() {
    const made = yield* folder
    const gate = path.join(made, "gate")
    const repositories = {
      waits: { setup: ["echo 'Installing <b>things</b>'", `until [ -e ${gate} ]; do sleep 0.1; done; echo 'all <i>there</i>'`] },
      broken: { setup: ["echo 'no <b>such</b> package' >&2; exit 3"] }
    }
    for (const [name, environment] of Object.entries(repositories)) {
      makeRepository(path.join(made, name), environment)
      yield* (yield* LocalRepositories).register(RepoName.make(`acme/${name}`), path.join(made, name))
    }
    return gate
  })
).pipe(Layer.provideMerge(Browser.layer()))

const setupIs = (page: Page, text: string) => page.locator("#setup .state", { hasText: text }).waitFor()
const output = (page: Page) => page.locator("#setup pre")
const isOpen = (page: Page) => page.locator("#setup details").evaluate((details) => details.hasAttribute("open"))

layer(service, { excludeTestServices: true })("the setup on the page of a sandbox", (it) => {
  it.effect("is followed while it runs, and a link from the start once it succeeded", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const gate = yield* Gate
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready.]]", { repos: [{ fullName: "acme/waits" }] })
        await page.goto(`/sandboxes/${id}`)
        await setupIs(page, "Running")
        await output(page).filter({ hasText: "Installing <b>things</b>" }).waitFor()
        await page.locator(".segments .now", { hasText: "Setup" }).waitFor()
        assert.isTrue(await isOpen(page))
        assert.match(await page.locator("#setup").innerText(), /so far/u)
        await inspect(page, "setup-running")

        writeFileSync(gate, "")
        await page.getByText("Ready.", { exact: true }).waitFor()
        assert.isFalse(await page.locator("#setup").isVisible())
        await page.locator(".item.boot summary").focus()
        await page.keyboard.press("Enter")
        await inspect(page, "setup-succeeded")
        await page.getByRole("link", { name: "Output of the setup" }).click()
        assert.include(await page.locator("main").innerText(), "all <i>there</i>")
      })
    }))

  it.effect("stays open where it failed, with what failed and the code it ended with", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready.]]", { repos: [{ fullName: "acme/broken" }] })
        await page.goto(`/sandboxes/${id}`)
        await setupIs(page, "Failed")
        await output(page).filter({ hasText: "no <b>such</b> package" }).waitFor()
        assert.isTrue(await isOpen(page))
        assert.match(await page.locator("#setup").innerText(), /exit code 3/u)
        await page.locator(".item.problem", { hasText: "Setup of acme/broken failed. setup[0]" }).waitFor()
        await inspect(page, "setup-failed")
      })
    }))
})
