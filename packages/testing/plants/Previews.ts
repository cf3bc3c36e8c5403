import { type Plants, plantsIn } from "./Plant.ts"

const folder = "packages/http/src/server/preview"

/** Faults of what guards previews. */
export const plants: Plants = {
  port: "previews",
  subject: ["packages/http/test/Previews.test.ts", "packages/http/test/PreviewAccess.test.ts"],
  plants: [
    ...plantsIn(`${folder}/PreviewPass.ts`, [
      ["takes a ticket for a cookie", "pass.kind === kind && ", ""],
      ["takes a pass for another port", "pass.port === port && ", ""],
      ["takes a pass for another sandbox", "pass.sandboxId === sandboxId && ", ""],
      ["takes an expired pass", " && pass.until > now ? pass", " ? pass"],
      ["takes a pass in the instant it expires", "pass.until > now", "pass.until >= now"],
      ["takes a pass that anybody signed", " || !timingSafeEqual(given, expected)", ""],
      ["takes a pass with a part too many", "rest.length > 0 || ", ""]
    ]),
    ...plantsIn(`${folder}/PreviewHeaders.ts`, [
      ["shows the box the service's cookies", "one !== \"\" && !OURS.test(one)", "one !== \"\""],
      ["knows the service's cookies in one case alone", "slipway/iu", "slipway/u"],
      ["knows those of its own host alone", "(?:Host|Secure)", "Host"],
      ["lets a box set the service's cookies", "if (OURS.test(pair.trim()) || OURS.test(", "if (OURS.test("],
      ["lets a box set the service's cookies without a name", " || OURS.test(pair.slice(pair.indexOf(\"=\") + 1).trim())", ""],
      ["lets a box set cookies for other hosts", "!/^\\s*domain\\s*(?:=|$)/iu.test(attribute)", "true"],
      ["lets a box clear the site's data", "  \"clear-site-data\",\n", ""],
      ["lets a box register service workers", "headers[\"service-worker\"] !== undefined || ", ""],
      ["believes the browser about proxies", "\"x-forwarded-for\", ", ""],
      ["passes on what is of one connection", "&& !named.includes(key)", ""],
      ["tells the box the preview's host", "host: [`localhost:${port}`]", "host: [origin.host]"],
      ["leads to itself for any port", "host === `${name}:${port}`", "host.startsWith(name)"],
      ["lets any origin in", "headers.origin !== undefined && headers.origin !== origin", "false"],
      ["lets other previews in", "site === \"same-origin\"", "site === \"same-origin\" || site === \"same-site\""],
      ["lets frames in", " && dest === \"document\"", ""],
      ["lets scripts in", " && mode === \"navigate\"", ""],
      ["lets forms of others in", "method === \"GET\" && ", ""]
    ]),
    ...plantsIn(`${folder}/Previews.ts`, [
      ["takes a ticket again", " || !(yield* sessions.useTicket(Redacted.make(pass.once)))", ""],
      ["lets a ticket in whose session ended", " || !(yield* mayOpen(pass)) || !(yield* sessions", " || !(yield* sessions"],
      ["does not look at the session of a cookie again", "if (pass === null || !(yield* mayOpen(pass))) return",
        "if (pass === null) return"],
      ["believes for good what it once heard of a session", "known !== undefined && known.until > now", "known !== undefined"],
      ["leaves open answers to a person whose session ended", "Effect.as(lost, \"lost\" as const)", "Effect.andThen(lost, Effect.never)"],
      ["keeps previews open for viewers", " && one.role !== \"viewer\")", ")"],
      ["keeps previews open with any session", "found.some((one) =>", "found.length === 0 || found.some((one) =>"],
      ["tells the audit log nothing", "audit.append([{", "Effect.succeed([{"],
      ["does not tell who opened a preview", "{ _tag: \"User\", userId: pass.userId }", "{ _tag: \"System\" }"]
    ]),
    ...plantsIn("packages/http/src/server/PreviewOrigin.ts", [
      ["takes a name with more before it for a preview", "/^(?<port>", "/(?<port>"],
      ["takes a name for a preview that ends otherwise", "nameOf(host).endsWith(nameOf(suffix))", "nameOf(host).includes(nameOf(suffix))"],
      ["opens ports of the system", "port >= 1024 && ", ""]
    ])
  ]
}
