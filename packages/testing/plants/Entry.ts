import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "Entry",
  subject: ["packages/domain/test/access/Entry.test.ts", "packages/domain/test/access/Minting.test.ts"],
  plants: [
    ...plantsIn("packages/domain/src/access/rules/Entry.ts", [
      ["trusts an address that is not verified", "verified === true &&", ""],
      ["trusts a text for a verification", "verified === true", "Boolean(verified)"],
      ["takes part of a domain", "emailDomains.includes(email.slice(email.lastIndexOf(\"@\") + 1).toLowerCase())",
        "emailDomains.some((domain) => email.toLowerCase().endsWith(domain))"],
      ["compares domains letter by letter", "+ 1).toLowerCase())", "+ 1))"],
      ["takes any value of the claim", "!textsOf(claims, claim.name).includes(claim.value)", "textsOf(claims, claim.name).length === 0"],
      ["asks for no claim", "claim !== null &&", "false &&"],
      ["gives the role of the first group", "ORDER.find((one) => given.has(one))", "[...given][0]"],
      ["lets in a person without a group", "role === undefined ? refused(\"None of your groups may enter.\")",
        "role === undefined ? AS_INVITED"],
      ["reads the groups of another claim", "textsOf(claims, groupsClaim)", "textsOf(claims, \"groups\")"],
      ["takes no role from a refused person", "_tag: \"Refused\", detail, leaves })", "_tag: \"Refused\", detail, leaves: false })"]
    ]),
    ...plantsIn("packages/domain/src/access/rules/Minting.ts", [
      ["lets a viewer's key do what it could before", "role === \"viewer\" ?", "false ?"],
      ["lets a viewer change", "scope === \"sandboxes\" && !changes &&", "scope === \"sandboxes\" &&"],
      ["lets a viewer read everything", "scope === \"sandboxes\" && !changes &&", "!changes &&"],
      ["lets a viewer read nothing", "!changes && rights.has(\"sandboxes:read\")", "false"]
    ])
  ]
}
