/** How GitHub, and our site after it, call the section of a heading. */
export const slugOf = (heading) =>
  heading.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/gu, "$1").trim().toLowerCase().replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "").replaceAll(" ", "-")
