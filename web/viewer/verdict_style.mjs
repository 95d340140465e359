// The styles of the panel of verdicts and of the page for files, brought by whichever is shown first.

/** Links the style sheet, once. */
export function addStyle() {
  if (document.querySelector('link[data-verdict]')) return;
  const sheet = document.createElement('link');
  sheet.rel = 'stylesheet';
  sheet.href = '/viewer/verdict.css';
  sheet.dataset.verdict = '';
  document.head.append(sheet);
}
