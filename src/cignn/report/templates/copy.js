// Buttons that copy the text of an element; without a clipboard the text is selected.
function copyButtons() {
  for (const button of document.querySelectorAll("button.copy")) {
    const source = document.getElementById(button.dataset.copies);
    const told = button.parentElement.querySelector(".copied");
    button.addEventListener("click", async () => {
      const closed = [...source.querySelectorAll("details:not([open])")];
      closed.forEach((one) => { one.open = true; }); // innerText leaves out what is folded
      const text = source.innerText;
      try {
        await navigator.clipboard.writeText(text);
        told.textContent = "Copied.";
        closed.forEach((one) => { one.open = false; });
      } catch {
        getSelection().selectAllChildren(source);
        told.textContent = "Selected: press Ctrl+C.";
      }
    });
  }
}
copyButtons();

