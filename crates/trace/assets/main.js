// Puts the parts together. A transaction that is chosen in one is shown in all.

const Choice = {
  /** `moves`: the reader asked for it, so the picture comes into view. */
  choose(number, moves = true) {
    Timeline.choose(number);
    Transactions.choose(number);
    Picture.choose(number);
    if (moves) document.getElementById("picture").scrollIntoView({ block: "nearest" });
  },
};

Summary.show();
Timeline.show();
Transactions.show();
Picture.show();
document.documentElement.dataset.ready = "yes";
