/** The message of `slipway serve` when the service is up, and access for the first visitor. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { IdentityProviders } from "@slipway/domain/access/ports/IdentityProvider"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { keepsSessions } from "@slipway/pages/people/SignInPages"
import * as PrivateAddress from "@slipway/worker-link/PrivateAddress"
import { Console, Effect, Redacted } from "effect"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as Service from "../../service/Service.ts"
import * as Listening from "../../settings/Listening.ts"
import type * as Settings from "../../settings/Settings.ts"
import * as Storage from "../../settings/Storage.ts"
import { columns } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import { linkOf } from "./Serve.ts"

/** A key for the first visitor, if no key was ever made. */
const firstKey = Effect.gen(function*() {
  const access = yield* Access
  const store = yield* AccessStore
  if ((yield* store.listKeys(null)).length > 0) return null
  return yield* access.createKey({ grant: "default", label: "first key", scopes: ["sandboxes"], kind: "live" })
})

/** A sign-in link for the first visitor, if there is no other sign-in. */
const firstLink = Effect.fnUntraced(function*(publicUrl: string) {
  if ((yield* IdentityProviders).length > 0) return null
  const { userId } = yield* (yield* MemberStore).owner
  return linkOf(publicUrl, yield* (yield* Sessions).makeLink(userId))
})

export const announce = (settings: Settings.Settings, publicUrl: string) =>
  Effect.gen(function*() {
    const { databaseUrl, dataDir, metricsAddress, role } = settings
    const isolation = yield* Service.ChosenIsolation
    yield* Isolation.announce(settings, isolation)
    const minted = role === "worker" ? null : yield* firstKey
    const link = role === "worker" ? null : yield* firstLink(publicUrl)
    if (role !== "worker" && !keepsSessions(publicUrl)) {
      yield* Effect.logWarning(
        `people cannot stay signed in at ${publicUrl}: browsers keep a session only at an https address or on this machine ` +
          `(${Listening.settings.publicUrl.name})`
      )
    }
    // The first lines are for a person who wants to begin.
    const text = columns([
      ...(link === null ? [] : [["sign in", `${link}  (once, within 10 minutes; another: slipway sign-in-link)`]]),
      ["Slipway", role === "worker" ? "worker, no HTTP" : `${publicUrl}  (API at /api/public/v1, docs at ${publicUrl}/docs)`],
      ...(role === "worker" && metricsAddress !== null ? [["metrics", `http://${PrivateAddress.format(metricsAddress)}/metrics`]] : []),
      ["data", dataDir],
      ["database", databaseUrl === null ? `embedded Postgres in ${dataDir}` : Storage.settings.databaseUrl.name],
      ["isolation", role === "http" ? "up to the workers" : Isolation.summary(isolation)],
      ...(minted === null ? [] : [["API key", `${Redacted.value(minted.key)}  (shown only now; more: slipway keys create)`]])
    ])
    yield* Console.log(link === null ? text : text.replace(link, () => Terminal.paint("bold", link)))
  })
