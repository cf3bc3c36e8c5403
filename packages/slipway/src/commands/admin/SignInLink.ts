/** `slipway sign-in-link`: a link that signs a person in. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Effect, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import * as RunningServices from "../../service/RunningServices.ts"
import * as Settings from "../../settings/Settings.ts"
import { addressOf, linkOf } from "../service/Serve.ts"
import { json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

export const signInLink = Command.make("sign-in-link", {
  user: Flag.String("user").pipe(
    Flag.withDescription("User: id, e-mail address or GitHub login; default: the owner"),
    Flag.optional
  ),
  json
}, ({ json, user }) =>
  Effect.flatMap(Settings.load, (settings) =>
    administration(Effect.gen(function*() {
      const { host, port, publicUrl } = settings
      const userId = Option.isNone(user) ? (yield* (yield* MemberStore).owner).userId : (yield* (yield* Members).user(user.value)).id
      const code = yield* (yield* Sessions).makeLink(userId)
      // The running service knows its address best. Only it knows a port that it chose itself.
      const at = publicUrl ?? (yield* RunningServices.addressOf(settings)) ?? (port === 0 ? null : addressOf(host, port))
      const link = at === null ? null : linkOf(at, code)
      yield* print(
        json,
        { userId, link, path: "/sign-in", code: Redacted.value(code) },
        () => `${link ?? `${Redacted.value(code)}  (at /sign-in of the service)`}\n\nThe link signs ${userId} in once, within 10 minutes.`
      )
    })))).pipe(
    Command.withDescription("Print a link that signs a person in, once, within 10 minutes"),
    Command.withExamples([
      { command: "slipway sign-in-link", description: "For the owner" },
      { command: "slipway sign-in-link --user ada-l", description: "For another person" }
    ])
  )
