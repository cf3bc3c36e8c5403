import { type Plants, plantsIn } from "./Plant.ts"

const folder = "packages/http/src/server/preview"

/** Faults of what guards previews. */
export const plants: Plants = {
  port: "previews",
  subject: ["packages/http/test/Previews.test.ts"],
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
      ["lets a box clear the site's data", "\"alt-svc\", \"clear-site-data\"", "\"alt-svc\""],
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
    ...plantsIn("packages/http/src/server/PreviewOrigin.ts", [
      ["takes a name with more before it for a preview", "/^(?<port>", "/(?<port>"],
      ["takes a name for a preview that ends otherwise", "nameOf(host).endsWith(nameOf(suffix))", "nameOf(host).includes(nameOf(suffix))"],
      ["opens ports of the system", "port >= 1024 && ", ""]
    ])
  ]
}
