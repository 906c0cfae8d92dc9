const all = document.getElementById("all");
const token = new URLSearchParams(location.hash.slice(1)).get("t");
history.replaceState(null, "", "/");
if (token) {
  const answer = await fetch("/v1/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
  if (answer.ok) sessionStorage.setItem("session", (await answer.json()).session);
}
const claims = await fetch("/v1/claims", { headers: { Authorization: `Bearer ${sessionStorage.getItem("session")}` } });
all.textContent = await claims.text();
